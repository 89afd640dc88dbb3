#!/usr/bin/env bash
# check_example.sh ROTATE PROGRAM - the README's C program runs, and prints what it should.
set -euo pipefail

said=$(PHASOR_CACHE_DIR=:memory: "$1" "$2" "$(dirname "$2")/inputs_0.safetensors")
printf '%s\n' "$said"
grep -qE '^output 0 on (cpu|cuda:0): [0-9 ]+$' <<<"$said"
