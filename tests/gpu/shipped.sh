#!/usr/bin/env bash
# shipped.sh - kernels that were compiled elsewhere serve a GPU where nothing can be compiled.
#
#     PHASOR=path/of/phasor CASES=tests/cases tests/gpu/shipped.sh
#
#     prewarm    every length of LENGTHS, for all of ARCHS, exact          needs NVRTC, no GPU
#     export     one read-only file
#     layer      with NVRTC hidden and an empty cache, the file as a read-only layer: every length
#                is called, nothing is compiled; some results are compared with the CPU device's
#     import     the same from a cache that took the file in
#     missing    a length that is not in the file is exit 10: it is the file that serves
#
# LENGTHS (--dim values), ARCHS, JOBS and CHECKED (how many results are compared) choose other work.
set -euo pipefail
phasor=${PHASOR:?} cases=${CASES:?}
lengths=${LENGTHS:-1:4096:16}
archs=${ARCHS:-sm_80,sm_90,sm_100}
jobs=${JOBS:-$(nproc)}
checked=${CHECKED:-5}
program=$cases/bench_rope_bf16/plain.pt2
size=(--dim q.0=1 --mode exact)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset PHASOR_CACHE PHASOR_CACHE_DIR PHASOR_CACHE_READONLY_DIRS PHASOR_NO_COMPILE

wrong() {
    echo "FAILED shipped: $1" >&2
    head -c 1000 "$work/messages" >&2
    exit 1
}

# The exit code of a run of the command; what it writes is in $work/json and $work/messages.
command_run() {
    local status=0
    "$phasor" "$@" >"$work/json" 2>"$work/messages" || status=$?
    echo $status
}

number() { # KEY of the last run's JSON
    sed -n "s/.*\"$1\": \([-0-9.e+]*\).*/\1/p" "$work/json" | head -1
}

# "3,8:16:4" as 3 8 12 16
lengths_list() {
    local part
    for part in ${lengths//,/ }; do
        if [[ $part == *:* ]]; then
            IFS=: read -r from to step <<<"$part"
            seq "$from" "${step:-1}" "$to"
        else
            echo "$part"
        fi
    done
}

hide_compiler() {
    export PHASOR_NVRTC=/nonexistent/libnvrtc.so PHASOR_NO_COMPILE=1
}

mapfile -t all < <(lengths_list)
for length in "${all[@]}"; do echo "q.1=$length"; done >"$work/lengths"

[ "$(command_run prewarm "$program" "${size[@]}" --dim "q.1=$lengths" --arch "$archs" \
    --jobs "$jobs" --cache "$work/made" --json)" -eq 0 ] || wrong 'prewarm fails'
compiled=$(number compiled)
seconds=$(printf %.1f "$(number seconds)")
[ "$compiled" -ge "${#all[@]}" ] || wrong "$compiled kernels for ${#all[@]} lengths"
[ "$(command_run cache export "$work/shipped.db" --cache "$work/made")" -eq 0 ] ||
    wrong 'cache export fails'
rm -r "$work/made"

# What the CPU device gives, for the shortest lengths of the list: it is slow.
mapfile -t some < <(printf '%s\n' "${all[@]}" | sort -n | head -n "$checked")
for length in "${some[@]}"; do
    [ "$(command_run run "$program" --device cpu --dim q.0=1 --dim "q.1=$length" --seed 3 \
        --cache :memory: --outputs "$work/want_$length.safetensors")" -eq 0 ] ||
        wrong "length $length on the CPU device"
done

# check_served HOW CACHE: all lengths in one process, some of them with their results.
check_served() {
    [ "$(command_run bench "$program" "${size[@]}" --lengths "$work/lengths" --device cuda \
        --cache "$2" --json)" -eq 0 ] || wrong "$1: the lengths are not served"
    [ "$(number compiled)" -eq 0 ] || wrong "$1: $(number compiled) kernels were compiled"
    [ "$(number lengths)" -eq "${#all[@]}" ] || wrong "$1: $(number lengths) lengths were called"
    [ "$(number cache_hits)" -ge "${#all[@]}" ] || wrong "$1: $(number cache_hits) cache hits"
    hits=$(number cache_hits)
    for length in "${some[@]}"; do
        [ "$(command_run run "$program" --device cuda "${size[@]}" --dim "q.1=$length" --seed 3 \
            --cache "$2" --expect "$work/want_$length.safetensors" --json)" -eq 0 ] ||
            wrong "$1: length $length has another result than on the CPU device"
        [ "$(number compiled)" -eq 0 ] || wrong "$1: length $length was compiled"
    done
}

hide_compiler
longest=$(printf '%s\n' "${all[@]}" | sort -n | tail -n 1)
export PHASOR_CACHE_READONLY_DIRS=$work/shipped.db
check_served layer "$work/empty"
[ "$(command_run run "$program" --device cuda "${size[@]}" --dim "q.1=$((longest + 1))" \
    --cache "$work/empty" --json)" -eq 10 ] ||
    wrong "length $((longest + 1)), which was not shipped, is no exit 10"
unset PHASOR_CACHE_READONLY_DIRS
[ "$(command_run cache import "$work/shipped.db" --cache "$work/imported")" -eq 0 ] ||
    wrong 'cache import fails'
check_served import "$work/imported"
echo "shipped: ${#all[@]} lengths x $archs: $compiled kernels in $seconds s, a file of" \
    "$(stat -c %s "$work/shipped.db") bytes; $hits hits, 0 compiled, ${#some[@]} results right," \
    "as a layer and imported"
