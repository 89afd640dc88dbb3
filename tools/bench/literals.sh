#!/usr/bin/env bash
# literals.sh - where literal sizes pay: the programs of literals/ with sizes as literals and as arguments, in one table.
#
#     tools/bench/literals.sh [--json FILE] [NAME...]          all of literals/, or some of it
#
#     program   template  sizes                exact us  generic us  generic/exact  of copy  rule   measured
#     sum_last  reduce    x.0=8192 x.1=4096       40.10       40.90          1.020    0.820  gains  as fast: 1.020
#
# `rule` is what the planner says of the kernels with sizes as arguments (`gains` in `phasor show --stage plan --json`):
# only those that gain are compiled anew in mode auto. `of copy`: the time of a copy of the same bytes over the exact
# kernels' time. At the end stand the rows where rule and measure differ.
#
# All is compiled beforehand, on all processors. Each measurement is a process of its own, so that one that fails is a
# row. PHASOR names the command (default: build/release/phasor), DEVICE the device, SECONDS_EACH what each figure takes,
# LIMIT the seconds after which the rows that are left are skipped with a word, PAYS the ratio from which literals pay.
# A device time is told where there is one, else (DEVICE=cpu) the host's, which says nothing about kernels; SHRINK divides
# all sizes, to try the script where there is no GPU.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
phasor=${PHASOR:-$here/../../build/release/phasor}
device=${DEVICE:-cuda} seconds=${SECONDS_EACH:-0.1} limit=${LIMIT:-110} pays=${PAYS:-1.02} shrink=${SHRINK:-1}

json=
if [ "${1:-}" = --json ]; then
    json=${2:?literals.sh: --json needs a file}
    shift 2
fi
if [ ! -x "$phasor" ]; then
    echo "literals.sh: $phasor is not there: build it (cmake --preset release && cmake --build --preset release) or set PHASOR" >&2
    exit 2
fi
names=("$@")
if [ ${#names[@]} -eq 0 ]; then
    for file in "$here"/literals/*.phasor; do
        names+=("$(basename "$file" .phasor)")
    done
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset PHASOR_CACHE PHASOR_CACHE_DIR PHASOR_CACHE_READONLY_DIRS PHASOR_NO_COMPILE

# "x.0=4 x.1=8192" -> --dim x.0=4 --dim x.1=8192, in the array `dims`
dims_read() { # SIZES
    local word
    dims=()
    for word in $1; do
        dims+=(--dim "$word")
    done
}

sizes_of() { # NAME
    sed -n 's/^# sizes: //p' "$here/literals/$1.phasor" | awk -v by="$shrink" '{
        for (i = 1; i <= NF; i++) {
            split($i, parts, "=")
            size = int(parts[2] / by)
            $i = parts[1] "=" (size < 1 ? 1 : size)
        }
        print
    }'
}

compile_ahead() { # NAME
    local sizes mode
    while read -r sizes; do
        dims_read "$sizes"
        for mode in exact generic; do
            "$phasor" prewarm "$here/literals/$1.phasor" --cache "$work/cache" --mode $mode "${dims[@]}" --jobs 1 --json
        done
    done < <(sizes_of "$1")
}

bench() { # NAME, MODE; writes $work/MODE
    "$phasor" bench "$here/literals/$1.phasor" --cache "$work/cache" --mode "$2" "${dims[@]}" --device "$device" \
        --seconds "$seconds" --json >"$work/$2" 2>"$work/messages"
}

# Without NVRTC no first calls with an empty cache are measured, and the copy is the driver's: enough here, and faster.
measure() { # NAME, MODE
    PHASOR_NVRTC=$work/none bench "$1" "$2" || bench "$1" "$2"
}

microseconds() { # FILE KEY: the median, or nothing
    sed -n "s/.*\"$2\": {\"count\": [0-9]*, \"p50\": \([-0-9.e+]*\).*/\1/p" "$1"
}

number() { # FILE KEY
    sed -n "s/.*\"$2\": \([-0-9.e+]*\)[,}].*/\1/p" "$1"
}

quotient() { # A B
    awk -v a="$1" -v b="$2" 'BEGIN { printf "%.3f", a / b }'
}

template_of() { # NAME
    "$phasor" show "$here/literals/$1.phasor" --stage cuda --mode generic --arch sm_90 "${dims[@]}" 2>/dev/null |
        sed -n 's/^#line 1 "\(.*\)\.cu"$/\1/p' | sort -u | paste -sd +
}

rule_of() { # NAME
    "$phasor" show "$here/literals/$1.phasor" --stage plan --json --mode generic --arch sm_90 "${dims[@]}" \
        >"$work/plan" 2>"$work/messages" || return 1
    if grep -q '"setup": false, "gains": true' "$work/plan"; then
        echo gains
    else
        echo stays
    fi
}

# The row's numbers, in the variables exact, generic, share, kernels.
times_read() {
    local key=device_us
    exact=$(microseconds "$work/exact" device_us)
    [ -n "$exact" ] || key=host_us
    exact=$(microseconds "$work/exact" $key) generic=$(microseconds "$work/generic" $key)
    share=$(number "$work/exact" share_of_copy)
    share=${share:+$(printf '%.3f' "$share")}
    kernels=$(number "$work/exact" kernels)
}

row() { # NAME SIZES
    local rule ratio template verdict
    if ! rule=$(rule_of "$1") || ! measure "$1" exact || ! measure "$1" generic; then
        printf '%-16s %-8s %-32s %s\n' "$1" "" "$2" "failed: $(head -c 200 "$work/messages")"
        failed=$((failed + 1))
        return
    fi
    times_read
    template=$(template_of "$1") ratio=$(quotient "$generic" "$exact")
    verdict=$(awk -v r="$ratio" -v p="$pays" 'BEGIN { print (r >= p) ? "slower" : "as fast" }')
    printf '%-16s %-8s %-32s %10.2f %10.2f %9s %8s  %-6s %s\n' \
        "$1" "$template" "$2" "$exact" "$generic" "$ratio" "$share" "$rule" "$verdict$([ "$kernels" -lt 2 ] || echo ", $kernels kernels")"
    [ "$rule $verdict" != "gains as fast" ] && [ "$rule $verdict" != "stays slower" ] ||
        echo "  $1 ($2): the rule says it $rule, generic kernels are $verdict: $ratio" >>"$work/differ"
    printf '{"program": "%s", "template": "%s", "sizes": "%s", "kernels": %s, "gains": %s, ' \
        "$1" "$template" "$2" "$kernels" "$([ "$rule" = gains ] && echo true || echo false)" >>"$work/rows"
    printf '"exact_us": %s, "generic_us": %s, "ratio": %s, "share_of_copy": %s}\n' \
        "$exact" "$generic" "$ratio" "${share:-null}" >>"$work/rows"
}

failed=0 skipped=0 running=0
: >"$work/rows" && : >"$work/differ"
for name in "${names[@]}"; do
    if [ ! -f "$here/literals/$name.phasor" ]; then
        echo "literals.sh: no program $name; there are $(cd "$here/literals" && echo *.phasor)" >&2
        exit 2
    fi
    compile_ahead "$name" >"$work/prewarm-$name" 2>&1 &
    running=$((running + 1))
    if [ $running -ge "$(nproc)" ]; then
        wait -n || true # what could not be compiled fails its row
        running=$((running - 1))
    fi
done
wait
echo "compiled in $SECONDS s"
printf '%-16s %-8s %-32s %10s %10s %9s %8s  %-6s %s\n' \
    program template sizes "exact us" generic gen/exact "of copy" rule measured
for name in "${names[@]}"; do
    while read -r sizes; do
        if [ $SECONDS -ge "$limit" ]; then
            echo "$name ($sizes): skipped, $limit s are over (LIMIT)"
            skipped=$((skipped + 1))
            continue
        fi
        dims_read "$sizes"
        row "$name" "$sizes"
    done < <(sizes_of "$name")
done
if [ -s "$work/differ" ]; then
    echo "rule and measure differ (literals pay from a ratio of $pays on):"
    cat "$work/differ"
fi
echo "$(wc -l <"$work/rows") rows, $failed failed, $skipped skipped, $SECONDS s"
if [ -n "$json" ]; then
    { echo "[" && sed '$!s/$/,/' "$work/rows" && echo "]"; } >"$json"
fi
[ $failed -eq 0 ]
