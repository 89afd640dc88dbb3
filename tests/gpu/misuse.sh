#!/usr/bin/env bash
# misuse.sh - outputs of wrong sizes, strides, offsets and memory, on a GPU under compute-sanitizer:
# CASES=tests/cases PROGRAMS=build/release/tests tests/gpu/misuse.sh [ROUNDS]
#
#     memcheck: 0 errors        and what gpu_misuse says: calls that ran, calls that were refused
#
# Exit 0: no byte was written outside of what was declared, and the tool reports no error. 77: the
# tool is not installed.
set -euo pipefail
cases=${CASES:?} programs=${PROGRAMS:?} rounds=${1:-10}
sanitizer=$(PATH=$PATH:/usr/local/cuda/bin command -v compute-sanitizer) || {
    echo "compute-sanitizer is not installed: it comes with the CUDA toolkit"
    exit 77
}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
"$programs/gpu_misuse" "$cases" "$rounds"
"$sanitizer" --tool memcheck --log-file "$log" "$programs/gpu_misuse" "$cases" "$rounds"
found=$(sed -n 's/.*ERROR SUMMARY: \([0-9]*\) .*/\1/p' "$log" | tail -n 1)
[ -n "$found" ] || { echo "memcheck: no summary in its log"; exit 1; }
echo "memcheck: $found errors"
[ "$found" = 0 ] || { head -n 40 "$log"; exit 1; }
