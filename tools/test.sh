#!/usr/bin/env bash
# test.sh - builds Phasor and runs its tests.
#
#     tools/test.sh           every test that needs no GPU: preset dev, then all of it under asan, then
#                             the programs of many threads (ctest label threads) under tsan
#     tools/test.sh --fast    preset dev alone
#     tools/test.sh --all-archs
#                             the same as without it, and every kernel of every case is compiled for all
#                             five archs, not for sm_75 and sm_90 alone: before a change of templates lands
#     tools/test.sh --gpu     the tests that need a GPU (ctest label gpu), preset dev
#
# More words go to ctest: tools/test.sh --fast -R test_cache. The last lines are ctest's own count.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

presets=(dev asan tsan)
labels=(--label-exclude gpu)
case "${1:-}" in
--fast)
    presets=(dev)
    shift
    ;;
--all-archs)
    export PHASOR_ALL_ARCHS=1
    shift
    ;;
--gpu)
    presets=(dev)
    labels=(--label-regex gpu)
    shift
    ;;
--help)
    sed -n 's/^# \{0,1\}//p' tools/test.sh | sed 1d
    exit
    ;;
esac

tools/setup.sh --tests
# Generated code as C++ that no test has compiled for a week (tests/support/host_build.c).
[ ! -d build/host_objects ] || find build/host_objects -type f -mtime +7 -delete
for preset in "${presets[@]}"; do
    printf '\n== %s ==\n' "$preset"
    mkdir -p build
    if ! cmake --preset "$preset" >"build/$preset-configure.log" 2>&1; then
        cat "build/$preset-configure.log"
        exit 1
    fi
    targets=() chosen=("${labels[@]}" --no-tests=error)
    if [ "$preset" = tsan ]; then
        targets=(--target thread_tests) chosen=(--label-regex threads)
        [ $# -gt 0 ] || chosen+=(--no-tests=error) # more words may leave none
    fi
    cmake --build --preset "$preset" "${targets[@]}" -- --quiet
    ctest --preset "$preset" "${chosen[@]}" "$@"
done
