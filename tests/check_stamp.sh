#!/usr/bin/env bash
# check_stamp.sh - the generator's stamp: sources that decide plans change it, nothing else does; plans
# of another generator are misses, kernels of it are hits.
#
#     check_stamp.sh PHASOR CHANGED_LIBRARY DRIVER NVRTC CMAKE GENERATOR
set -euo pipefail
phasor=$1 changed=$2 driver=$3 nvrtc=$4 cmake=$5 generator=$6
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0
expect() { # expect WHAT COMMAND...: the command succeeds
    "${@:2}" || { echo "check_stamp.sh: $1" && failed=1; }
}

# -- what it is made of: a copy elsewhere, built as far as the stamp ---------------------------------

copy=$scratch/copy
mkdir "$copy"
cp -r "$here"/{CMakeLists.txt,cmake,src,templates,tools,include,cache} "$copy"
stamp_of_copy() {
    "$cmake" --build "$copy/build" --target generator_stamp >"$scratch/log" 2>&1 || cat "$scratch/log" >&2
    sed -n 's/.*return "\(.*\)";/\1/p' "$copy/build/generated/stamp.c"
}
"$cmake" -S "$copy" -B "$copy/build" -G "$generator" -DPHASOR_TESTS=OFF >"$scratch/log" 2>&1 || cat "$scratch/log"
ours=$("$phasor" --version | sed -n 's/^generator //p')
expect "the stamp has 32 digits: $ours" test ${#ours} = 32
expect "the same sources elsewhere have another stamp" test "$(stamp_of_copy)" = "$ours"
for source in graph/ops.def load/aten_view.c rewrite/pair.c graph/layout.c codegen/emit.c executable/recipe.c; do
    cp "$copy/src/$source" "$scratch/kept"
    echo '/* changed */' >>"$copy/src/$source"
    expect "$source was changed, the stamp was not" test "$(stamp_of_copy)" != "$ours"
    mv "$scratch/kept" "$copy/src/$source"
done
for source in src/device/device.c src/compile/nvrtc.c cache/store.c tools/phasor/main.c; do
    echo '/* changed */' >>"$copy/$source"
done
mkdir "$copy/src/plan/room"
mv "$copy/src/graph/layout.c" "$copy/src/plan/room/renamed.c"
expect "what decides no plan, or a file's name, changed the stamp" test "$(stamp_of_copy)" = "$ours"

# -- what becomes of plans ---------------------------------------------------------------------------

# The same command beside the other library: it finds the one that lies beside it.
mkdir "$scratch/other"
cp "$phasor" "$scratch/other/phasor"
cp "$changed" "$scratch/other/$(basename "$changed")"
other=$scratch/other/phasor
theirs=$("$other" --version | sed -n 's/^generator //p')
expect "the changed library has the same stamp" test "$theirs" != "$ours"

export PHASOR_DRIVER=$driver PHASOR_NVRTC=$nvrtc PHASOR_CACHE_DIR=$scratch/cache
program=$here/tests/cases/qk_rope_bf16_dynamic/plain.pt2
for mode in exact generic; do
    rm -rf "$scratch/cache"
    run=(run "$program" --device cuda --mode "$mode" --json)
    "$phasor" "${run[@]}" >"$scratch/first" 2>"$scratch/err"
    expect "$mode: nothing was compiled at first" grep -q '"compiled": [1-9]' "$scratch/first"
    "$phasor" "${run[@]}" --log info >"$scratch/again" 2>"$scratch/err"
    expect "$mode: its own plan is no hit" test "$(grep -c 'not in the cache' "$scratch/err")" = 0
    "$other" "${run[@]}" --log info >"$scratch/after" 2>"$scratch/err"
    expect "$mode: kernels with the same source did not survive" grep -q '"compiled": 0' "$scratch/after"
done
expect "cache stats does not name the generator" grep -q "^generator *$ours" <("$phasor" cache stats)
expect "cache stats counts no other plans" grep -q '"other_plans": [1-9]' <("$phasor" cache stats --json)

# Nothing may be compiled: one warning names both.
rm -rf "$scratch/cache"
"$phasor" run "$program" --device cuda --mode exact >/dev/null 2>&1
PHASOR_NO_COMPILE=1 "$other" run "$program" --device cuda --mode exact --repeat 3 >"$scratch/out" 2>"$scratch/err" ||
    { cat "$scratch/err" && failed=1; }
expect "no warning names both generators" \
    test "$(grep -c "warning: .*generator $ours, this is $theirs" "$scratch/err")" = 1
PHASOR_NO_COMPILE=1 "$phasor" run "$program" --device cuda --mode exact >"$scratch/out" 2>"$scratch/err"
expect "a warning without a reason: $(cat "$scratch/err")" test ! -s "$scratch/err"
exit $failed
