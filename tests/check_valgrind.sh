#!/usr/bin/env bash
# The command under valgrind: no invalid access, no use of what was never written, no leak.
# Usage: check_valgrind.sh PHASOR CASES
set -uo pipefail
phasor=$1 cases=$2
if ! command -v valgrind >/dev/null; then
    echo "skipped: there is no valgrind"
    exit 77
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# try EXPECTED-EXIT-CODE WORDS...: valgrind's own code is 99
try() {
    local expected=$1
    shift
    valgrind --quiet --error-exitcode=99 --leak-check=full --show-leak-kinds=definite,indirect,possible \
        --errors-for-leak-kinds=definite,indirect,possible "$phasor" "$@" --cache :memory: >/dev/null 2>"$log"
    local code=$?
    if [ "$code" != "$expected" ]; then
        echo "phasor $*: exit code $code instead of $expected"
        cat "$log"
        exit 1
    fi
}

for case in int_input report_counter; do
    program=$cases/$case/plain.pt2
    try 0 check "$program"
    try 0 run "$program" --device cpu --inputs "$cases/$case/inputs_0.safetensors" \
        --expect "$cases/$case/outputs_0.safetensors"
    try 0 show "$program" --stage cuda
done
try 3 check "$cases/left_complex32/plain.pt2"
try 4 run "$cases/README.md" --device cpu
echo "8 commands without an error"
