#!/usr/bin/env bash
# trace.sh - the way of one call through the files: how many hops a reader makes who follows it.
#
#     tools/trace.sh [ROOT [CASE]]      ROOT: another copy of the sources; CASE: qk_rope_f32 without it
#
#     cold call
#       context/run.c call/call.c call/sizes.c call/call.c specialise/specialise.c ...
#       25 transitions between files, 20 different; plan_make entered 1 times
#     warm call ...
#
# In: a build of its own (build/trace: -O0, -finstrument-functions), run on the stand-in driver with an
# empty cache. Out: the files of the rooms below, in the order in which their functions are entered on
# the caller's thread between the begin and the end of phasor_run, first cold, then warm. What goes to
# and fro between two files is a loop, and counts as one transition each way.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "${1:-$here/..}"
case=tests/cases/${2:-qk_rope_f32}
# runtime: what these rooms were once.
rooms='specialise|kernels|call|context|executable|runtime'
build=$PWD/build/trace

mkdir -p "$build"
{
    cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS="-O0 -finstrument-functions"
    cmake --build "$build" --target phasor phasor_stand_in_driver phasor_stand_in_nvrtc
    cc -D_GNU_SOURCE -Iinclude -o "$build/call" "$here/trace.c" -L"$build" -lphasor -Wl,-rpath,"$build"
} >"$build/log" 2>&1 || { tail -n 40 "$build/log" && exit 1; }

export PHASOR_DRIVER=$build/tests/libphasor_stand_in_driver.so
export PHASOR_NVRTC=$build/tests/libphasor_stand_in_nvrtc.so
PHASOR_CACHE=off "$build/call" "$case/plain.pt2" "$case/inputs_0.safetensors" "$build/lines"

# ADDRESS FUNCTION FILE of what was entered.
awk '$1 == ">" && !seen[$3]++ { print "0x" $3 }' "$build/lines" >"$build/addresses"
addr2line -f -e "$build/libphasor.so" <"$build/addresses" |
    sed -E 's|^.*/src/([^:]*):.*|src/\1|; s|^/.*/cache/([^:]*):.*|cache/\1|' | paste -d ' ' - - |
    paste -d ' ' "$build/addresses" - >"$build/names"

awk -v rooms="^src/($rooms)/[^/]*[.]c$" '
    FNR == NR { function_of[substr($1, 3)] = $2; file_of[substr($1, 3)] = $3; next }
    function_of[$3] == "phasor_run" && $1 == ">" { thread = $2; call = $3; begin(); }
    !thread || $2 != thread { next }
    $1 == "<" { if ($3 == call) { report(); thread = 0 } next }
    function_of[$3] == "plan_make" { plans++ }
    file_of[$3] ~ rooms { enter(substr(file_of[$3], 5)) }

    function begin() {
        file = line = lines = before = last = ""
        transitions = different = plans = 0
        split("", seen)
    }

    # To and fro between two files: the two transitions before were these two.
    function enter(next_file,    there, back) {
        if (next_file == file) return
        there = file " " next_file
        back = next_file " " file
        if (!(last == back && before == there) && !(last == there && before == back)) {
            if (file) { transitions++; different += !seen[there]++; before = last; last = there }
            if (length(line) + length(next_file) > 96) { lines = lines "  " line "\n"; line = "" }
            line = line (line ? " " : "") next_file
        }
        file = next_file
    }

    function report() {
        printf "%s call\n%s  %s\n", calls++ ? "warm" : "cold", lines, line
        printf "  %d transitions between files, %d different; plan_make entered %d times\n",
            transitions, different, plans
    }' "$build/names" "$build/lines"
