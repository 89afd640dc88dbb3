# phasor prewarm: sizes times archs into a cache; a second time nothing is compiled; interrupted,
# killed or with a compiler that dies, what was done is kept.
source "$(dirname "$0")/support.sh"
program=$CASES/qk_rope_bf16_dynamic/plain.pt2
dim=q.1

expect_exit 4 prewarm "$program" --arch sm_90 --cache :memory:
expect_message 'in memory only'
expect_exit 4 prewarm "$scratch/nothing.pt2" --arch sm_90
expect_exit 3 prewarm "$CASES/left_five/plain.pt2" --arch sm_90
expect_exit 5 prewarm "$program" --arch sm_90 --dim nobody.1=3
expect_exit 4 prewarm "$program" --arch sm_90 --lengths "$scratch/nothing"
echo "$dim" >"$scratch/lengths"
expect_exit 4 prewarm "$program" --arch sm_90 --lengths "$scratch/lengths"
expect_message 'lengths:1'
# What the program does not take: its file, and the line that asks for it.
printf '# observed\n\nz.1=4\n' >"$scratch/lengths"
expect_exit 5 prewarm "$program" --arch sm_90 --lengths "$scratch/lengths"
expect_message 'lengths:3: .*plain.pt2: z.1: neither .* inputs: q, k'
printf '\n%s=4 %s=5\n' "$dim" "$dim" >"$scratch/lengths"
expect_exit 5 prewarm "$program" --arch sm_90 --lengths "$scratch/lengths"
expect_message "lengths:2: .*plain.pt2: $dim and $dim are one size"
for nothing in '' '# no sizes\n\n'; do
    printf "$nothing" >"$scratch/lengths"
    expect_exit 4 prewarm "$program" --arch sm_90 --lengths "$scratch/lengths"
    expect_silence
    expect_message 'lengths: no sizes: expected lines of NAME=SIZE'
done
expect_exit 0 prewarm "$program" --arch sm_90 --dim "$dim=99999999999" --json
expect_output '"compiled": 0, "cache_hits": 0, "failed": 0, "skipped": 1, "seconds": '
PHASOR_NVRTC=/there/is/none.so expect_exit 6 prewarm "$program" --arch sm_90 --json
expect_message '/there/is/none.so'
expect_output '"compiled": 0, "cache_hits": 0, "failed": [1-9]'
expect_exit 6 --compile-server
expect_message 'nobody is there'

# The rest needs a compiler: the real one, or the stand-in that the build makes for tests.
stand_in=$(dirname "$PHASOR")/tests/libphasor_stand_in_nvrtc.so
if ! "$PHASOR" show "$program" --stage ptx --arch sm_90 >"$scratch/out" 2>"$scratch/err"; then
    if [ ! -e "$stand_in" ]; then
        echo "no NVRTC: compiling is not tested"
        finish
        exit
    fi
    export PHASOR_NVRTC=$stand_in
fi

expect_exit 0 prewarm "$program" --arch sm_80,sm_90 --dim "$dim=3,5" --jobs 2 --json
expect_output '"failed": 0, "skipped": 0'
compiled=$(json_number compiled)
claims=$((claims + 1))
[ "$compiled" -ge 4 ] || say_failure "$compiled compiled, expected at least 4"
expect_exit 0 prewarm "$program" --arch sm_80,sm_90 --dim "$dim=3" --dim "$dim=5" --json
expect_output '"compiled": 0'
printf '# observed\n%s=3\n\n%s=5 # often\n' "$dim" "$dim" >"$scratch/lengths"
expect_exit 0 prewarm "$program" --arch sm_80 --lengths "$scratch/lengths" --json
expect_output '"compiled": 0'
PHASOR_NO_COMPILE=1 expect_exit 10 prewarm "$program" --arch sm_100 --dim "$dim=7" --json
expect_exit 0 prewarm "$program" --arch sm_90 --dim "$dim=3"
expect_output '0 kernels compiled'

# A dim that is an expression, 8*s6: others are skipped; the symbol names it too.
derived=$CASES/fault_derived_multiple/plain.pt2
expect_exit 0 prewarm "$derived" --arch sm_90 --mode generic --dim x.0=1:40 --json
expect_output '"failed": 0, "skipped": 35'
printf 'x.0=8\nx.0=9\nx.0=512\n' >"$scratch/lengths"
expect_exit 0 prewarm "$derived" --arch sm_90 --mode generic --lengths "$scratch/lengths" --json
expect_output '"compiled": 0, "cache_hits": [1-9][0-9]*, "failed": 0, "skipped": 2'
expect_exit 0 prewarm "$derived" --arch sm_90 --mode generic --dim s6=0:9 --json
expect_output '"compiled": 0, "cache_hits": [1-9][0-9]*, "failed": 0, "skipped": 1'

# One kernel a unit or many: the same kernels.
exact=(prewarm "$program" --arch sm_90 --mode exact --json)
PHASOR_UNIT_KERNELS=1 expect_exit 0 "${exact[@]}" --dim "$dim=20:27" --cache "$scratch/one"
compiled=$(json_number compiled)
expect_exit 0 "${exact[@]}" --dim "$dim=20:27" --cache "$scratch/many"
expect_output "\"compiled\": $compiled, \"cache_hits\": 0,"

# Lengths share the kernel that fills a table: for each of 8 an aligned and an unaligned rotation.
expect_exit 0 prewarm "$CASES/bench_rope_bf16/plain.pt2" --arch sm_90 --mode exact --json \
    --dim q.1=20:27 --jobs 2 --cache "$scratch/table"
expect_output '"compiled": 17, "cache_hits": 0,'

# Interrupted, and killed: the same command goes on.
expect_total() { # CACHE: all of 1:64 is there when the rest is compiled
    local kept
    "$PHASOR" cache stats --cache "$1" --json >"$scratch/out" 2>"$scratch/err" || kept=0
    kept=$(json_number kernels)
    expect_exit 0 "${exact[@]}" --dim "$dim=1:64" --cache "$1"
    claims=$((claims + 1))
    [ "$((kept + $(json_number compiled)))" -eq "$total" ] ||
        say_failure "$kept were kept, $(json_number compiled) compiled, of $total"
    expect_exit 0 "${exact[@]}" --dim "$dim=1:64" --cache "$1"
    expect_output "\"compiled\": 0, \"cache_hits\": $total,"
}

stop_in_the_middle() { # CACHE, SIGNAL: when the first unit is stored; gives the exit code
    local status=0 process
    "$PHASOR" "${exact[@]}" --dim "$dim=1:64" --cache "$1" --jobs 1 \
        >"$scratch/out" 2>"$scratch/err" </dev/null &
    process=$!
    for _ in $(seq 600); do
        "$PHASOR" cache stats --cache "$1" --json 2>/dev/null | grep -q '"kernels": [1-9]' && break
        sleep 0.05
    done
    kill -"$2" "$process"
    wait "$process" 2>/dev/null || status=$?
    claims=$((claims + 1))
    [ "$status" -eq "$3" ] || say_failure "after signal $2 exit code $status, expected $3"
}

expect_exit 0 "${exact[@]}" --dim "$dim=1:64" --cache "$scratch/whole"
total=$(json_number compiled)
stop_in_the_middle "$scratch/interrupted" INT 9
expect_message 'the same command goes on'
expect_total "$scratch/interrupted"
stop_in_the_middle "$scratch/killed" KILL 137
expect_total "$scratch/killed"

# A compiler that dies of one source: that kernel fails, the others are there.
if [ -e "$stand_in" ]; then
    export PHASOR_NVRTC=$stand_in
    "$PHASOR" show "$program" --stage cuda --arch sm_90 --mode exact --dim "$dim=13" \
        >"$scratch/source" 2>"$scratch/err"
    text=$(grep '#define COUNT' "$scratch/source" | tail -1)
    expect_exit 0 "${exact[@]}" --dim "$dim=11:14" --cache "$scratch/well"
    compiled=$(json_number compiled)
    PHASOR_STAND_IN_NVRTC_DIE="$text
" expect_exit 6 "${exact[@]}" --dim "$dim=11:14" --cache "$scratch/dies"
    expect_message 'the process that compiled it ended before it was done (signal 9'
    failed=$(json_number failed)
    expect_output "\"compiled\": $((compiled - failed)), \"cache_hits\": 0, \"failed\": [1-9]"
    expect_exit 0 "${exact[@]}" --dim "$dim=11:14" --cache "$scratch/dies"
    expect_output "\"compiled\": $failed, "
fi
finish
