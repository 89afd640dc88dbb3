#!/usr/bin/env bash
# kill.sh - kills processes that use one cache, at random points, and looks at what they leave.
#
#     export PHASOR=build/dev/phasor WRITER=build/dev/tests/cache_writer CASES=tests/cases
#     tests/kill.sh [KILLS]
#
#     1002 kills: 0 bad of 214563 rows checked; slowest run afterwards 0.09 s, 0 wrong
#
# In a round two writers, a prewarm, and by turns a gc, an export or an import work on a directory
# whose limit is so small that every write evicts; after 0 to 0.15 s all are killed with SIGKILL.
# Then verify checks every row, and a program runs: its result must be eager's, and it must
# not have waited for a lock (10 s).
# Without a GPU it runs on the stand-in driver of the tests, with kernels from a read-only layer.
set -euo pipefail
: "${PHASOR:?names the command}" "${WRITER:?names cache_writer}"
: "${CASES:?names the folder of cases}"
kills=${1:-1000}
program=$CASES/qk_rope_bf16_dynamic/plain.pt2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
here=$(dirname "$WRITER")
unset PHASOR_CACHE PHASOR_CACHE_DIR PHASOR_CACHE_READONLY_DIRS
unset PHASOR_NO_COMPILE PHASOR_LOG PHASOR_NVRTC
RANDOM=${SEED:-1}

# What runs afterwards: a GPU, or the stand-ins.
run=("$PHASOR" run "$CASES/qk_rope_bf16_dynamic/plain.pt2"
     --inputs "$CASES/qk_rope_bf16_dynamic/inputs_0.safetensors"
     --expect "$CASES/qk_rope_bf16_dynamic/outputs_0.safetensors" --json)
[ -e "$CASES/qk_rope_bf16_dynamic/inputs_0.safetensors" ] || run=("$PHASOR" run "$program" --json)
stand_in=(env "PHASOR_DRIVER=$here/libphasor_stand_in_driver.so"
          "PHASOR_NVRTC=$here/libphasor_stand_in_nvrtc.so")
if ! "$PHASOR" run "$program" --device cuda --cache :memory: >"$scratch/out" 2>&1; then
    run=("${stand_in[@]}" "${run[@]}")
fi
PHASOR_CACHE_MAX_SIZE=64M "${run[@]}" --device cuda --cache "$scratch/first" >"$scratch/out"
"$PHASOR" cache export "$scratch/layer.db" --cache "$scratch/first" >"$scratch/out"

# NVRTC for prewarm: the real one, or the stand-in.
prewarm=("$PHASOR" prewarm "$program" --mode exact)
"$PHASOR" show "$program" --stage ptx --arch sm_90 >"$scratch/out" 2>&1 ||
    prewarm=("${stand_in[@]}" "${prewarm[@]}")

# The figure of what verify printed; 1 when it printed none.
figure() {
    local number
    number=$(sed -n "s/.*\"$1\": \([0-9]*\).*/\1/p" "$scratch/verify")
    echo "${number:-1}"
}

export PHASOR_CACHE_DIR=$scratch/cache PHASOR_CACHE_MAX_SIZE=2M
"$PHASOR" cache export "$scratch/import.db" --cache "$scratch/first" >"$scratch/out"
killed=0 rounds=0 checked=0 bad=0 wrong=0 slowest=0
while [ "$killed" -lt "$kills" ]; do
    rounds=$((rounds + 1))
    children=()
    for seed in $RANDOM $RANDOM; do
        "$WRITER" put "$PHASOR_CACHE_DIR" "$seed" >"$scratch/w" 2>&1 & children+=($!)
    done
    "${prewarm[@]}" --dim "q.1=$((RANDOM % 500 + 600)),$((RANDOM % 500 + 600))" --arch sm_90 \
        >"$scratch/p" 2>&1 & children+=($!)
    case $((rounds % 4)) in
        0) "$PHASOR" cache gc >"$scratch/g" 2>&1 & children+=($!) ;;
        1) "$PHASOR" cache export "$scratch/out.db" >"$scratch/g" 2>&1 & children+=($!) ;;
        2) "$PHASOR" cache import "$scratch/import.db" >"$scratch/g" 2>&1 & children+=($!) ;;
    esac
    sleep "0.$(printf %03d $((RANDOM % 150)))"
    for child in "${children[@]}"; do
        kill -9 "$child" 2>"$scratch/k" && killed=$((killed + 1))
    done
    wait "${children[@]}" 2>"$scratch/k" || true

    before=$(date +%s%N)
    PHASOR_CACHE_READONLY_DIRS=$scratch/layer.db "${run[@]}" --device cuda \
        >"$scratch/run" 2>"$scratch/err" ||
        { wrong=$((wrong + 1)); cat "$scratch/run" "$scratch/err"; }
    took=$((($(date +%s%N) - before) / 1000000))
    [ "$took" -le "$slowest" ] || slowest=$took

    "$PHASOR" cache verify --json >"$scratch/verify" 2>"$scratch/err" || true
    rows=$(($(figure units) + $(figure kernels) + $(figure plans)))
    found=$(figure bad)
    checked=$((checked + rows))
    bad=$((bad + found))
    [ "$found" = 0 ] || cat "$scratch/verify" "$scratch/err"
    if [ $((rounds % 10)) = 0 ]; then
        said=$("$WRITER" check "$PHASOR_CACHE_DIR") || { wrong=$((wrong + 1)); echo "$said"; }
    fi
    if [ -e "$scratch/out.db" ]; then
        "$PHASOR" cache import "$scratch/out.db" --cache "$scratch/second" >"$scratch/out" ||
            { wrong=$((wrong + 1)); cat "$scratch/out"; }
        rm -rf "$scratch/out.db" "$scratch/second"
    fi
done
"$WRITER" check "$PHASOR_CACHE_DIR" >"$scratch/out" || { wrong=$((wrong + 1)); cat "$scratch/out"; }
printf '%d kills: %d bad of %d rows checked; slowest run afterwards %d.%03d s, %d wrong\n' \
    "$killed" "$bad" "$checked" $((slowest / 1000)) $((slowest % 1000)) "$wrong"
[ "$bad" = 0 ] && [ "$wrong" = 0 ] && [ "$checked" -gt 0 ] && [ "$slowest" -lt "${SLOWEST:-9000}" ]
