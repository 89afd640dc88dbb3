#!/usr/bin/env bash
# analyse.sh - static analysis. Prints findings, and exits with 1 when there is one.
#
#     tools/analyse.sh                   cppcheck over all sources: 15 s, the ctest `analysis`
#     tools/analyse.sh --tidy            clang-tidy too: minutes, by hand
#     tools/analyse.sh --tidy src/load   those below
#
# What is no finding stands in tools/analyse.suppressions (cppcheck) and .clang-tidy, with its reason;
# a suppression that suppresses nothing is a finding. Exit 77: cppcheck is not installed.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tidy=
if [ "${1:-}" = --tidy ]; then
    tidy=$(command -v clang-tidy-14 || command -v clang-tidy) || { echo "clang-tidy is not installed" && exit 77; }
    shift
fi
command -v cppcheck >/dev/null || { echo "cppcheck is not installed" && exit 77; }
places=("$@") checks=warning,performance,portability failed=0
[ ${#places[@]} -gt 0 ] || places=(src cache tools/phasor) checks+=,information
mapfile -t files < <(find "${places[@]}" -name '*.c' | sort)

# One job: with more, what is found across functions depends on how many.
cppcheck --quiet --std=c11 --enable="$checks" --suppress=missingInclude --error-exitcode=1 -j 1 \
    -Iinclude -Isrc -I. -Itools/phasor -DPHASOR_CUDA=1 -D_GNU_SOURCE \
    --suppressions-list=tools/analyse.suppressions \
    --template='{file}:{line}: {severity}: {message} [{id}]' "${places[@]}" || failed=1

if [ -n "$tidy" ]; then
    # Configured for its list of commands alone: nothing is built.
    cmake -S . -B build/analyse -G Ninja -DCMAKE_BUILD_TYPE=Debug >/dev/null || exit 1
    printf '%s\0' "${files[@]}" | xargs -0 -n 4 -P "$(nproc)" "$tidy" --quiet -p build/analyse \
        2> >(grep -v ' warnings\? generated' >&2) || failed=1
fi
[ "$failed" = 0 ] && echo "${#files[@]} files: no finding"
exit "$failed"
