#!/usr/bin/env bash
# check_example.sh ROTATE PROGRAM - the README's C program runs, and prints what it should.
set -euo pipefail

rotate=$1
tests=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cases=$(dirname "$2")/..
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export PHASOR_CACHE_DIR=:memory:

try() { # EXIT PATTERN and the words behind rotate: what it says has a line with the pattern
    local wanted=$1 pattern=$2 status=0
    shift 2
    "$rotate" "$@" >"$scratch/said" 2>&1 || status=$?
    cat "$scratch/said"
    [ "$status" -eq "$wanted" ] || { echo "exit code $status, expected $wanted"; exit 1; }
    grep -qE "$pattern" "$scratch/said" || { echo "nothing like $pattern"; exit 1; }
}

# Tensors, and outputs that are none.
try 0 '^output 0 on (cpu|cuda:0): [0-9 ]+$' "$2" "$(dirname "$2")/inputs_0.safetensors"
try 0 'is no tensor$' "$cases/nested_inputs/plain.pt2" "$cases/nested_inputs/inputs_0.safetensors"

# Words that are missing, files that are.
try 2 '^usage: rotate'
try 2 '^usage: rotate' "$2"
try 1 'No such file' "$scratch/none.pt2" "$scratch/none.safetensors"

# As many inputs as there is room for, and one more.
program() { # COUNT: the sum of so many scalars
    echo 'phasor 1 "sum"'
    for ((i = 0; i < $1; i++)); do echo "input x$i: f32[]"; done
    echo 's0 = add(x0, x0)'
    for ((i = 1; i < $1; i++)); do echo "s$i = add(s$((i - 1)), x$i)"; done
    echo "output s$(($1 - 1))"
}
values() { # COUNT: a .safetensors file of so many scalars
    local header='{' i
    for ((i = 0; i < $1; i++)); do
        header+="${i/#/\"input_}\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[$((4 * i)),$((4 * i + 4))]},"
    done
    header=${header%,}\}
    printf "\\x$(printf %02x $((${#header} % 256)))\\x$(printf %02x $((${#header} / 256)))\\0\\0\\0\\0\\0\\0%s" "$header"
    head -c $((4 * $1)) /dev/zero
}
for count in 16 17; do
    program $count >"$scratch/sum_$count.phasor"
    values $count >"$scratch/inputs_$count.safetensors"
done
try 0 '^output 0 on ' "$scratch/sum_16.phasor" "$scratch/inputs_16.safetensors"
try 1 'more than 16 inputs' "$scratch/sum_17.phasor" "$scratch/inputs_17.safetensors"

# The README has the same text.
awk '/^```c$/ {inside = 1; next} /^```$/ {inside = 0} inside' "$tests/../README.md" >"$scratch/shown"
cmp "$scratch/shown" "$tests/example/rotate.c" || { echo "README.md shows another rotate.c"; exit 1; }
