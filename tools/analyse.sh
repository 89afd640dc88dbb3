#!/usr/bin/env bash
# Static analysis: clang-tidy (checks and what is switched off, with reasons: .clang-tidy) and
# cppcheck (tools/analyse.suppressions). Prints findings and fails when there is one. A tool that is
# not installed is named and left out.
#
#     tools/analyse.sh            all sources
#     tools/analyse.sh src/load   those below
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
places=("$@")
[ ${#places[@]} = 0 ] && places=(src cache tools/phasor)
build=build/analyse jobs=$(nproc) failed=0
mapfile -t files < <(find "${places[@]}" -name '*.c' | sort)

tidy=$(command -v clang-tidy || command -v clang-tidy-14)
if [ -n "$tidy" ]; then
    # Only for its list of commands: nothing is built.
    cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Debug >/dev/null || exit 1
    printf '%s\0' "${files[@]}" |
        xargs -0 -n 4 -P "$jobs" "$tidy" --quiet -p "$build" 2> >(grep -v ' warnings\? generated' >&2) || failed=1
else
    echo "clang-tidy is not installed: left out"
fi

if command -v cppcheck >/dev/null; then
    cppcheck --quiet --std=c11 --enable=warning,performance,portability --error-exitcode=1 -j "$jobs" \
        -Iinclude -Isrc -I. -Itools/phasor -DPHASOR_CUDA=1 -D_GNU_SOURCE \
        --suppressions-list=tools/analyse.suppressions \
        --template='{file}:{line}: {severity}: {message} [{id}]' "${places[@]}" || failed=1
else
    echo "cppcheck is not installed: left out"
fi
[ "$failed" = 0 ] && echo "${#files[@]} files: no finding"
exit "$failed"
