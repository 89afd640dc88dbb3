#!/usr/bin/env bash
# Runs programs of more than 2^32 elements on a GPU: PHASOR=path/of/phasor tests/gpu/large.sh [NAME...]
#
#     large/running.phasor         4.4e9 running sums, of which it gives the last few
#     large/running.small.phasor   the same few from the rows they are of: run on the CPU device, it says what is right
#
#     name        what has more than 2^32 elements
#     far_rows    an input: slices, sums and rows by index at its end
#     running     memory between two kernels, written and read
#     complex     the memory of an output, a view of whose end is the output
#     expanded    products of two lines, which no memory holds: by rows, and as one line
#     positions   one reduction
#
# Each runs with sizes as literals and with sizes as arguments, on the same random inputs. All but far_rows make what
# is large on the GPU, from lines. Needs 25 GB of GPU memory and 5 GB of the host's. SMALL=1 takes small sizes
# instead, DEVICE=cpu another device: that tests the programs themselves, on any machine.
set -u
phasor=${PHASOR:?} device=${DEVICE:-cuda} small=${SMALL:-0}
folder=$(cd "$(dirname "$0")" && pwd)/large
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
names=("$@")
[ ${#names[@]} -gt 0 ] || names=(far_rows running expanded complex positions)
passed=0 failed=0 since=$SECONDS

# say OK NAME MODE LOG
say() {
    if [ "$1" = 0 ]; then
        echo "passed $2 $3, $((SECONDS - since)) s"
        passed=$((passed + 1))
    else
        echo "FAILED $2 $3: $(head -c 800 <<<"$4")"
        failed=$((failed + 1))
    fi
    since=$SECONDS
}

for name in "${names[@]}"; do
    program=$folder/$name.phasor expected=$folder/$name.small.phasor
    [ -f "$expected" ] || expected=$program # it reads a small part alone
    sizes=()
    [ "$small" = 0 ] || sizes=(--dim x.0=5)
    if ! log=$("$phasor" run "$expected" "${sizes[@]}" --seed 7 --device cpu --outputs "$work/expected.safetensors" 2>&1); then
        say 1 "$name" "on the CPU device" "$log"
        continue
    fi
    for mode in exact generic; do
        log=$("$phasor" run "$program" "${sizes[@]}" --seed 7 --device "$device" --mode $mode --cache :memory: \
            --expect "$work/expected.safetensors" --rtol 1e-3 --atol 1e-2 2>&1)
        say $? "$name" $mode "$log"
    done
done
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
