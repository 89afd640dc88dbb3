#!/usr/bin/env bash
# Runs one fuzz target for some seconds and keeps what it found, minimised.
#
#     tests/fuzz/run.sh BUILD TARGET SECONDS     BUILD: made with PHASOR_FUZZ=ON, has BUILD/fuzz (seeds.py)
#
# New inputs stay in BUILD/fuzz/TARGET; `run.sh BUILD TARGET merge` puts the smallest set that
# covers as much into corpus/TARGET. A crash leaves its input in BUILD/fuzz/found.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$1 target=$2 seconds=$3
work=$build/fuzz
declare -A longest=([pt2]=24576 [pt2_json]=16384 [text]=6144 [safetensors]=1024 [sizes]=256 [python]=64 [recipe]=2048 [class]=2048 [cache]=256)
mkdir -p "$work/$target" "$work/found" "$here/corpus/$target" "$work/seeds/$target"
declare -A kept=([pt2]=3600 [pt2_json]=2600 [text]=2500) # bytes of an input of the corpus
options=(-timeout=20 -rss_limit_mb=2560 -malloc_limit_mb=1024)
[ -f "$work/$target.dict" ] && options+=(-dict="$work/$target.dict")
if [ "$seconds" = merge ]; then
    rm -rf "$work/merged" "$work/all" && mkdir "$work/merged" "$work/all"
    for folder in "$here/corpus/$target" "$work/$target" "$work/seeds/$target"; do
        find "$folder" -type f -size -"${kept[$target]:-${longest[$target]}}"c -exec cp -t "$work/all" {} +
    done
    find "$here/corpus/$target" -type f -name '[a-z]*_*' -exec cp -t "$work/merged" {} + # found bugs
    "$build/tests/fuzz/fuzz_$target" "${options[@]}" -set_cover_merge=1 -use_counters=0 "$work/merged" "$work/all"
    rm -rf "${here:?}/corpus/$target" && cp -r "$work/merged" "$here/corpus/$target"
    exit
fi
ASAN_OPTIONS=allocator_may_return_null=1 \
    "$build/tests/fuzz/fuzz_$target" "${options[@]}" -max_len="${longest[$target]}" -max_total_time="$seconds" -print_final_stats=1 \
    -close_fd_mask=1 -artifact_prefix="$work/found/$target-" "$work/$target" "$here/corpus/$target" "$work/seeds/$target"
