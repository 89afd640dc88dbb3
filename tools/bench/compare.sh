#!/usr/bin/env bash
# compare.sh - Phasor beside PyTorch (eager, torch.compile) and other rotary kernels, in one run and one table.
#
#     tools/bench/compare.sh                                   all programs, 1x1 to 8x16384
#     tools/bench/compare.sh --quick                           4x8192 mostly: a few minutes
#     tools/bench/compare.sh --programs rope_table_bf16 --sizes 4x8192 --json figures.json
#     tools/bench/compare.sh --acceptance                      the figures that have a limit: reached or missed
#     tools/bench/compare.sh --series                          random lengths, one call after the other (series.py)
#
# PHASOR names the command (default: build/release/phasor), CASES the programs (default: tests/cases), PYTHON the Python.
# What is not installed is skipped with a word; Python alone is needed. All options are peers.py's; behind --series, which
# stands first, series.py's.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
phasor=${PHASOR:-$root/build/release/phasor}
python=${PYTHON:-python3}

if [ ! -x "$phasor" ]; then
    echo "compare.sh: $phasor is not there: build it (cmake --preset release && cmake --build --preset release) or set PHASOR" >&2
    exit 2
fi
if ! command -v "$python" >/dev/null; then
    echo "compare.sh: $python is not there: set PYTHON, or run $phasor bench alone" >&2
    exit 2
fi
script=peers.py
if [ "${1:-}" = --series ]; then
    script=series.py
    shift
fi
exec "$python" -B "$here/$script" --phasor "$phasor" --cases "${CASES:-$root/tests/cases}" "$@"
