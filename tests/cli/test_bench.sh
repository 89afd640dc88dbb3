#!/usr/bin/env bash
# phasor bench on the CPU device: figures, JSON, pictures, series of lengths, usage.
. "$(dirname "$0")/support.sh"
program=$CASES/bench_rope_table_f32/plain.pt2

expect_exit 0 bench "$program" --dim x.1=3 --device cpu
expect_output 'x\[2, 3, 32, 128\] table\[3, 64, 2\]'
expect_output '^host .* us '
expect_exit 0 bench "$program" --dim x.1=3 --device cpu --json --plot "$scratch/bars.svg"
expect_output '"device": "cpu"'
expect_output '"bytes": 198144,'
expect_output '"host_us": {"count": '
expect_output '"device_us": null'
claims=$((claims + 1))
grep -q '</svg>' "$scratch/bars.svg" || say_failure "no picture"

expect_exit 0 bench "$program" --lengths x.1=uniform:1:4:20 --device cpu --json --plot "$scratch/points.svg"
expect_output '"calls": 20, "lengths": 4,'
expect_output '"over_2_ms": [0-9]'
expect_output '"repeated_us": {"count": 16,'
claims=$((claims + 1))
[ "$(grep -c '<circle' "$scratch/points.svg")" -eq 22 ] || say_failure "not a point a call"
printf 'x.0=1 x.1=5\n# a comment\nx.1=6\nx.0=1 x.1=5\n' >"$scratch/lengths"
expect_exit 0 bench "$program" --lengths "$scratch/lengths" --device cpu --json
expect_output '"calls": 3, "lengths": 2,'
# A dim that is an expression: only sizes that it can have are drawn.
derived=$CASES/fault_derived_multiple/plain.pt2
expect_exit 0 bench "$derived" --lengths x.0=uniform:1:31:20 --device cpu --json
expect_output '"calls": 20, "lengths": 3,'
expect_exit 5 bench "$derived" --lengths x.0=uniform:1:7:20 --device cpu
expect_message 'x.0: no size in 1..7 is 8\*s6'

expect_exit 2 bench "$program" --lengths x.1=uniform:5:4:20 --device cpu
expect_message 'NAME=uniform:FROM:TO:COUNT'
expect_exit 0 bench "$program" --dim x.1=3 --seconds 0.001 --device cpu
expect_exit 2 bench "$program" --dim x.1=3 --seconds soon --device cpu
expect_message 'expected a number such as'
expect_exit 2 bench "$program" --dim x.1=3,4 --device cpu
expect_exit 4 bench "$program" --lengths "$scratch/none" --device cpu
printf 'x.1=5\nz.1=6\n' >"$scratch/lengths"
expect_exit 5 bench "$program" --lengths "$scratch/lengths" --device cpu
expect_message 'lengths:2: .*plain.pt2: z.1: neither'
expect_exit 4 bench "$program" --dim x.1=3 --device cpu --plot "$scratch/none/x.svg"
expect_exit 5 bench "$program" --dim x.1=200000 --device cpu
expect_exit 3 bench "$CASES/left_five/plain.pt2" --device cpu
expect_exit 2 run "$program" --plot "$scratch/x.svg"
finish
