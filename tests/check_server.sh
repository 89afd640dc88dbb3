#!/usr/bin/env bash
# check_server.sh SERVER PROGRAM DRIVER NVRTC - the example server answers, the same whichever thread and device does,
# and nothing fails under load: on the CPU device, and on the stand-in driver in every mode.
set -euo pipefail
server=$1 program=$2
export PHASOR_CACHE_DIR=:memory:
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

wrong() {
    echo "FAILED: $1"
    cat "$scratch/out"
    exit 1
}

answers() { # options: lengths and checksums without the times, by length
    printf '%s\n' 17 3 40 17 1 40 9999 3 |
        "$server" "$program" --dim q.1 --lengths 1:40 --threads 3 "$@" |
        sed 's/: [0-9.]* us,/:/' | sort >"$scratch/out"
}

load() { # requests, options
    local requests=$1
    shift
    "$server" "$program" --dim q.1 --lengths 1:40 --threads 4 --load "$requests" "$@" >"$scratch/out" ||
        wrong "under load: $*"
    cat "$scratch/out"
    grep -qE "requests +$requests " "$scratch/out" || wrong "not all $requests requests were answered"
    grep -qE 'failed or differing +0$' "$scratch/out" || wrong 'some failed'
}

answers --device cpu
[ "$(wc -l <"$scratch/out")" -eq 8 ] || wrong 'not one answer for each request'
[ "$(grep -c 'checksum [0-9a-f]\{16\}$' "$scratch/out")" -eq 7 ] || wrong 'not an answer for each length'
[ "$(grep checksum "$scratch/out" | uniq | wc -l)" -eq 4 ] || wrong 'other answers than one for each of 4 lengths'
grep -q '^9999: error: lengths are 1 to 40$' "$scratch/out" || wrong 'a length out of range is not refused'
cp "$scratch/out" "$scratch/cpu"
load 60 --device cpu

export PHASOR_DRIVER=$3 PHASOR_NVRTC=$4
answers --device cuda
cmp "$scratch/out" "$scratch/cpu" || wrong 'the devices disagree'
load 400 --device cuda --mode generic
grep -qE 'specialisations at the end .*compiled [1-4],' "$scratch/out" || wrong 'generic kernels: more than 4 were compiled'
load 400 --device cuda --mode auto
load 12 --device cuda --mode exact
