#!/usr/bin/env bash
# many.sh - many processes want one kernel from an empty cache at once: it is compiled once.
#
#     PHASOR=build/dev/phasor CASES=tests/cases tests/many.sh [ROUNDS [PROCESSES [prewarm|run]]]
#
#     20 rounds of 32 processes: 2 kernels compiled in each, 0 failures, longest round 3.1 s
#
# The commands wait for another process that compiles the same kernel; a program that serves never
# does: see src/kernels/turn.h. `run` takes a GPU, or the stand-in driver of the tests.
set -euo pipefail
: "${PHASOR:?names the command}" "${CASES:?names the folder of cases}"
rounds=${1:-20} processes=${2:-32} kind=${3:-prewarm}
program=$CASES/qk_rope_bf16_dynamic/plain.pt2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
unset PHASOR_CACHE PHASOR_CACHE_DIR PHASOR_NO_COMPILE PHASOR_LOG PHASOR_CACHE_READONLY_DIRS
stand_in=$(dirname "$PHASOR")/tests/libphasor_stand_in
if [ "$kind" = run ]; then
    command=("$PHASOR" run "$program" --device cuda --json)
    "${command[@]}" --cache :memory: >"$scratch/out" 2>&1 ||
        export PHASOR_DRIVER=${stand_in}_driver.so PHASOR_NVRTC=${stand_in}_nvrtc.so
else
    command=("$PHASOR" prewarm "$program" --arch sm_90 --dim q.1=5 --jobs 1 --json)
    "$PHASOR" show "$program" --stage ptx --arch sm_90 >"$scratch/out" 2>&1 ||
        export PHASOR_NVRTC=${stand_in}_nvrtc.so
fi

failures=0
failed() { # MESSAGE
    failures=$((failures + 1))
    echo "$1" | head -5
}

compiled_of() { # FILES: the sum of "compiled"
    cat "$@" | sed -n 's/.*"compiled": \([0-9]*\).*/\1/p' | awk '{sum += $1} END {print sum + 0}'
}

"${command[@]}" --cache "$scratch/alone" >"$scratch/alone.json"
wanted=$(compiled_of "$scratch/alone.json")
longest=0
for ((round = 0; round < rounds; round++)); do
    children=()
    before=$(date +%s%N)
    for ((i = 0; i < processes; i++)); do
        "${command[@]}" --cache "$scratch/cache" >"$scratch/out.$i" 2>"$scratch/err.$i" &
        children+=($!)
    done
    for child in "${children[@]}"; do
        wait "$child" || failed "a process failed"
    done
    took=$((($(date +%s%N) - before) / 1000000))
    [ "$took" -le "$longest" ] || longest=$took
    sum=$(compiled_of "$scratch"/out.*)
    if [ "$took" -lt 9000 ]; then
        [ "$sum" = "$wanted" ] || failed "round $round: $sum compiled, not $wanted"
        [ -z "$(cat "$scratch"/err.*)" ] || failed "$(cat "$scratch"/err.*)"
    else # so slow that a wait for another process (10 s) may have ended: each does its own, and says so
        [ "$sum" -ge "$wanted" ] || failed "round $round: $sum compiled, not $wanted"
        said=$(grep -v 'database is locked' "$scratch"/err.* || true)
        [ -z "$said" ] || failed "$said"
    fi
    "$PHASOR" cache verify --cache "$scratch/cache" >"$scratch/verify" ||
        failed "$(cat "$scratch/verify")"
    rm -rf "$scratch/cache"
done
printf '%d rounds of %d processes: %d kernels compiled in each, %d failures, ' \
    "$rounds" "$processes" "$wanted" "$failures"
printf 'longest round %d.%03d s\n' $((longest / 1000)) $((longest % 1000))
[ "$failures" = 0 ] && [ "$wanted" -gt 0 ]
