#!/usr/bin/env bash
# models.sh - whole models by Phasor beside PyTorch, in one run: see whole.py for options and columns.
#
#     tools/bench/models.sh [--only prefill,token,video,lengths] [--no-compile] [--json FILE]
#
# PHASOR names the command (default: build/release/phasor), PYTHON the Python that has PyTorch.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
exec "${PYTHON:-python3}" -B "$here/whole.py" --phasor "${PHASOR:-$here/../../build/release/phasor}" "$@"
