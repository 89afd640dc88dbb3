#!/usr/bin/env bash
# quickstart.sh - builds Phasor and runs a shipped rotary embedding, from PyTorch's file to its result.
#
#     tools/quickstart.sh
#
# Runs on the GPU where there is one, else on the CPU device; where NVRTC is found it compiles the
# program's kernels too, for a GPU of this machine or sm_90. Each twice: the second time everything
# comes from the cache, which for this is build/quickstart.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case_folder=tests/cases/qk_rope_bf16_dynamic
phasor=build/release/phasor
export PHASOR_CACHE_DIR=$PWD/build/quickstart

title() { printf '\n# %s\n' "$*"; }
shown() { # the command as a reader would type it, then what it says
    printf '$ %s\n' "$*"
    "$@"
}

tools/setup.sh
echo "# Building (build/release; the log is build/quickstart.log)"
mkdir -p build
if ! { cmake --preset release && cmake --build --preset release --target phasor_command; } >build/quickstart.log 2>&1; then
    tail -n 40 build/quickstart.log
    exit 1
fi
rm -rf "$PHASOR_CACHE_DIR"

title "Runs a program that PyTorch exported, and compares with what PyTorch returned"
run=("$phasor" run "$case_folder/plain.pt2" --inputs "$case_folder/inputs_1.safetensors"
    --expect "$case_folder/outputs_1.safetensors")
shown "${run[@]}"

title "Compiles its kernels for three lengths; needs NVRTC, but no GPU"
compile=("$phasor" prewarm "$case_folder/plain.pt2" --dim q.1=1,64,512)
code=0
shown "${compile[@]}" 2>&1 | tee build/quickstart.log || code=$?
if [ "$code" -eq 6 ] && grep -q "NVRTC not found" build/quickstart.log; then
    echo "NVRTC is not on this machine, so there is nothing more to see: phasor doctor says what to do."
    exit 0
fi
[ "$code" -eq 0 ] || exit "$code"

title "Again, in new processes: nothing is compiled, the cache has it"
shown "${run[@]}"
shown "${compile[@]}"

title "The CUDA that it wrote for the first of them: the PyTorch lines, and the start of the kernel's body"
shown "$phasor" show "$case_folder/plain.pt2" --stage cuda --dim q.1=64 2>/dev/null | awk '
    /^\/\* phasor_/ && ++kernels == 2 { skip = 1 }
    skip { next }
    /^(\$|\/\* phasor_)/ { heading = 1 }
    heading { print }
    /^\$|\*\/$/ { heading = 0 }
    /^DEVICE .* body[0-9]*\(/ && !bodies++ { left = 22 }
    left { print --left ? $0 : "    ..." }'
