#!/usr/bin/env bash
# prewarm.sh - what phasor prewarm makes of the processors, and of being killed.
#
#     tools/bench/prewarm.sh [PHASOR]        build/release/phasor; needs NVRTC, no GPU
#
#     all lengths, one run                 seconds, share of all processors that were busy
#     a sample, one kernel a unit          the same, and how much units of several kernels save
#     killed in the middle, started again  what was there is found, what was missing is compiled
#     a third time                         nothing is compiled
#
# CPU time is told beside the clock's: with others on the machine only that can be compared. What a
# machine without others would show is told too: the share of the time in which the processes had a
# processor or waited for one.
# LENGTHS, SAMPLE (--dim values), ARCHS, JOBS and PROGRAM choose other work.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

phasor=${1:-build/release/phasor}
program=${PROGRAM:-tests/cases/bench_rope_bf16/plain.pt2}
lengths=${LENGTHS:-1:4096:16}
sample=${SAMPLE:-1:4096:64}
archs=${ARCHS:-sm_80,sm_90,sm_100}
processors=$(nproc)
jobs=${JOBS:-$processors}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
TIMEFORMAT='%R %U %S'
unset PHASOR_CACHE PHASOR_CACHE_DIR PHASOR_NO_COMPILE PHASOR_UNIT_KERNELS

prewarm() { # CACHE, VALUES
    "$phasor" prewarm "$program" --cache "$1" --arch "$archs" --dim "q.1=$2" --jobs "$jobs" \
        --mode exact --json 2>"$work/messages" >"$work/json"
}

number() { # KEY of the last run's JSON
    sed -n "s/.*\"$1\": \([-0-9.e+]*\).*/\1/p" "$work/json" | head -1
}

# Seconds by the clock and of CPU of a run, in the file "$work/NAME".
measure() { # NAME, CACHE, VALUES
    { time prewarm "$2" "$3"; } 2>"$work/time-$1" || {
        cat "$work/messages" >&2
        exit 1
    }
}

# Nanoseconds that the threads of a process and of its children ran or waited for a processor, read
# until it ends.
watch() { # PROCESS
    local process="" thread="" times=() sum
    while kill -0 "$1" 2>/dev/null; do
        sum=0
        for process in "$1" $(pgrep -P "$1"); do
            for thread in /proc/"$process"/task/*/schedstat; do
                read -r -a times 2>/dev/null <"$thread" || continue
                sum=$((sum + times[0] + times[1]))
            done
        done 2>/dev/null
        [ "$sum" -eq 0 ] || echo "$sum" >"$work/wanted"
        sleep 0.1
    done
}

wall() { awk '{ print $1 }' "$work/time-$1"; }
cpu() { awk '{ printf "%.2f", $2 + $3 }' "$work/time-$1"; }
quotient() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.3f", a / b }'; }

say() { printf '%-42s %s\n' "$1" "$2"; }

say "machine" "$processors processors, load $(cut -d ' ' -f 1 /proc/loadavg) before, $jobs jobs"

measure all "$work/cache-all" "$lengths" &
measuring=$!
until process=$(pgrep -f -- "--cache $work/cache-all "); do
    sleep 0.02
done
watch "$(head -1 <<<"$process")"
wait $measuring
total=$(number compiled)
say "q.1=$lengths x $archs" "$total kernels, $(wall all) s, $(cpu all) s of CPU"
capacity=$(awk -v w="$(wall all)" -v n="$processors" 'BEGIN { print w * n }')
say "share of all processors busy" "$(quotient "$(cpu all)" "$capacity") (to reach: 0.9)"
wanted=$(awk -v ns="$(cat "$work/wanted")" 'BEGIN { print ns / 1e9 }')
say "the same, and waiting for a processor" "$(quotient "$wanted" "$capacity")"

PHASOR_UNIT_KERNELS=1 measure one "$work/cache-one" "$sample"
ones=$(number compiled)
measure some "$work/cache-some" "$sample"
say "sample q.1=$sample, one kernel a unit" "$ones kernels, $(wall one) s, $(cpu one) s of CPU"
say "the same in units of several" \
    "$(number compiled) kernels, $(wall some) s, $(cpu some) s of CPU"
by_clock=$(quotient "$(wall some)" "$(wall one)")
by_cpu=$(quotient "$(cpu some)" "$(cpu one)")
say "of the time of one kernel a unit" "$by_clock by the clock, $by_cpu of CPU (to reach: 0.4)"

# In the middle: when a third of the kernels is stored. Not by the function: the process itself must
# be the one that is killed.
stored() { "$phasor" cache stats --cache "$work/cache-killed" --json >"$work/json" && number kernels; }
"$phasor" prewarm "$program" --cache "$work/cache-killed" --arch "$archs" --dim "q.1=$lengths" \
    --jobs "$jobs" --mode exact >"$work/messages" 2>&1 &
until [ "$(stored)" -ge $((total / 3)) ]; do
    sleep 0.05
done
kill -9 $!
wait $! 2>/dev/null || true
kept=$(stored)
say "killed in the middle" "$kept of $total kernels are stored"
prewarm "$work/cache-killed" "$lengths"
say "started again" "$(number compiled) compiled, $((total - kept)) were missing"
again=$(number compiled)
prewarm "$work/cache-killed" "$lengths"
say "a third time" "$(number compiled) compiled, $(number cache_hits) found, $(number seconds) s"

[ "$kept" -gt 0 ] && [ "$kept" -lt "$total" ] || {
    echo "the kill came too early or too late to say anything" >&2
    exit 1
}
[ "$again" -eq $((total - kept)) ] && [ "$(number compiled)" -eq 0 ] || {
    echo "more was compiled than was missing" >&2
    exit 1
}
