#!/usr/bin/env bash
# setup.sh - makes this machine ready to build Phasor and to run its tests.
#
#     tools/setup.sh            says what is missing, and installs it
#     tools/setup.sh --tests    the tools that check the sources too: tests are skipped without them
#     tools/setup.sh --check    says what is missing, changes nothing; exit 1 when something is
#
# In: the machine. Out: Debian's packages for what is missing, and, where there is no CUDA toolkit,
# NVIDIA's Python wheels (headers and NVRTC) in build/cuda-wheels, where CMake and libphasor look.
# Says nothing and calls no package manager when nothing is missing. To need another package, add a
# row to `needs`, for a check of the sources to `checks`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

wheels=build/cuda-wheels
wheel_names=("nvidia-cuda-runtime==13.0.*" "nvidia-cuda-nvrtc==13.0.*") # cuda.h, nvrtc.h and NVRTC

say() { printf 'setup: %s\n' "$*" >&2; }
have_command() { command -v "$1" >/dev/null 2>&1; }
have_module() { have_command pkg-config && pkg-config --exists "$1" 2>/dev/null; }
have_header() { have_command gcc && gcc -fsyntax-only -include "$1" -x c /dev/null 2>/dev/null; }

# Debian's package, what it is for, and how to see that it is there without asking Debian.
needs=(
    "gcc|C compiler|have_command gcc"
    "libc6-dev|C library's headers|have_header stdio.h"
    "g++|C++ compiler: the tests run generated CUDA as C++|have_command c++"
    "cmake|build|have_command cmake"
    "ninja-build|build|have_command ninja"
    "pkg-config|build|have_command pkg-config"
    "libsqlite3-dev|the cache|have_module sqlite3"
    "libxxhash-dev|hashes|have_module libxxhash"
    "libzip-dev|reads .pt2 files|have_module libzip"
    "libjansson-dev|reads .pt2 files|have_module jansson"
    "libdlpack-dev|tensors|have_header dlpack/dlpack.h"
    "libcriterion-dev|the tests|have_module criterion"
)
checks=(
    "clang-format-14|formatting of the sources, as a test|have_command clang-format-14"
    "cppcheck|static analysis, as a test|have_command cppcheck"
)

# -- Debian's packages -----------------------------------------------------------------------------

missing_list() { # rows
    local row package purpose test
    missing=()
    for row in "$@"; do
        IFS='|' read -r package purpose test <<<"$row"
        if ! eval "$test"; then
            missing+=("$package")
            say "missing: $package ($purpose)"
        fi
    done
}

packages_install() {
    local as_root=()
    if ! have_command apt-get; then
        say "no apt-get here: please install what these packages hold, then call again: $*"
        return 1
    fi
    if [ "$(id -u)" -ne 0 ]; then
        if ! have_command sudo; then
            say "as root, please run: apt-get install $*"
            return 1
        fi
        as_root=(sudo)
    fi
    say "installing $*"
    # A source that cannot be reached is no reason to stop: the packages may come from the others.
    "${as_root[@]}" apt-get update -qq </dev/null || say "apt-get update failed; going on"
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends "$@" </dev/null >/dev/null
}

# -- CUDA ------------------------------------------------------------------------------------------

# The toolkit's headers, 12.4 or newer. cmake/cuda.cmake looks in the same places.
cuda_usable() {
    local version
    [ -f "$1/nvrtc.h" ] || return 1
    version=$(sed -n 's/^#define CUDA_VERSION \([0-9]*\).*/\1/p' "$1/cuda.h" 2>/dev/null)
    [ "${version:-0}" -ge 12040 ]
}

cuda_found() {
    local folder nvcc
    nvcc=$(command -v nvcc || true)
    for folder in ${CUDA_PATH:+"$CUDA_PATH/include"} ${CUDA_HOME:+"$CUDA_HOME/include"} \
        ${nvcc:+"$(dirname "$(readlink -f "$nvcc")")/../include"} \
        /usr/local/cuda/include /usr/local/cuda-*/include /opt/cuda/include /usr/include \
        "$wheels"/nvidia/cu1?/include; do
        cuda_usable "$folder" && return 0
    done
    return 1
}

# Into a folder of its own first: a broken download leaves nothing that looks whole.
wheels_fetch() {
    rm -rf "$wheels.part" "$wheels"
    python3 -m pip --version >/dev/null 2>&1 || packages_install python3-pip || return 1
    python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore \
        --retries 2 --timeout 20 --target "$wheels.part" "${wheel_names[@]}" </dev/null || return 1
    mv "$wheels.part" "$wheels"
}

wheels_install() {
    local log=build/cuda-wheels.log
    mkdir -p build
    say "no CUDA toolkit here (12.4 or newer): fetching NVIDIA's wheels into $wheels"
    if ! wheels_fetch >"$log" 2>&1; then
        rm -rf "$wheels.part"
        say "that failed ($log says why): building with PHASOR_CUDA=OFF, for the CPU device alone"
    fi
}

# -- all of it -------------------------------------------------------------------------------------

case "${1:-}" in
"" | --tests | --check) ;;
*)
    echo "usage: tools/setup.sh [--tests | --check]" >&2
    exit 2
    ;;
esac

missing_list "${needs[@]}"
if [ "${1:-}" = --check ]; then
    cuda_found || say "missing: CUDA 12.4 or newer"
    [ ${#missing[@]} -eq 0 ] && cuda_found
    exit
fi
if [ ${#missing[@]} -gt 0 ]; then
    packages_install "${missing[@]}"
    missing_list "${needs[@]}"
    [ ${#missing[@]} -eq 0 ]
fi
cuda_found || wheels_install
if [ "${1:-}" = --tests ]; then
    missing_list "${checks[@]}"
    [ ${#missing[@]} -eq 0 ] || packages_install "${missing[@]}" ||
        say "going on without them: their tests are skipped"
fi
