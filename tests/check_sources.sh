#!/usr/bin/env bash
# check_sources.sh - the sources are formatted, or analysed without a finding; and each check sees a
# fault that is planted.
#
#     check_sources.sh format       clang-format 14, as .clang-format has it
#     check_sources.sh analysis     cppcheck, by tools/analyse.sh
#
# Exit 77 where the tool is not installed, and 1 for that too when PHASOR_ALL_CHECKS is set.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

needs() {
    ! command -v "$1" >/dev/null || return 0
    echo "$1 is not installed: tools/setup.sh --tests"
    [ -n "${PHASOR_ALL_CHECKS:-}" ] && exit 1
    exit 77
}

unseen() {
    echo "$1 does not see: $2"
    exit 1
}

case "${1:-}" in
format)
    # Another version formats otherwise.
    needs clang-format-14
    find src cache include tools tests -name '*.[ch]' -print0 |
        xargs -0 clang-format-14 --dry-run -Werror
    planted='static int  two(void) { return 2; }'
    cp .clang-format "$scratch"
    echo "$planted" >"$scratch/planted.c"
    ! clang-format-14 --dry-run -Werror "$scratch/planted.c" 2>/dev/null || unseen clang-format "$planted"
    ;;
analysis)
    needs cppcheck
    tools/analyse.sh
    planted='int last(void) { int a[2] = {1, 2}; return a[2]; }'
    echo "$planted" >"$scratch/planted.c"
    ! tools/analyse.sh "$scratch" >/dev/null 2>&1 || unseen cppcheck "$planted"
    ;;
*)
    echo "usage: check_sources.sh format|analysis" >&2
    exit 2
    ;;
esac
