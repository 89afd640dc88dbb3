#!/usr/bin/env bash
# plant.sh - plants a fault for rows of both tables of tests/README.md, one at a time, in a copy of the
# tree, and sees the test that covers the row fail. Run by hand: a row takes a build of what changed.
#
#     tests/plant.sh [ROW...]        tests/plant.sh c18 c48: these alone
#
#     r26   seen      test_reports
#     c9    NOT SEEN  test_cache_trouble
#
# Rows are named r (reports) and c (caches) with the number of their first column. The copy and the
# results are kept in build/planted: what was seen already is not done again, until the folder is
# removed. Exit 1: a fault was not seen, or could not be planted because its text is no longer there.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
work=$here/build/planted
tree=$work/tree
results=$work/results
wanted=" $* "
failed=0
mkdir -p "$tree"
touch "$results"

# The copy is as the working tree is; only what differs is written, so that builds stay short.
cd "$here"
git ls-files | grep -Ev '^tests/(plant.sh$|cases/)' | while read -r file; do
    mkdir -p "$tree/$(dirname "$file")"
    cmp -s "$file" "$tree/$file" || cp -p "$file" "$tree/$file"
done
ln -sfn "$here/tests/cases" "$tree/tests/cases"
cmake -S "$tree" -B "$tree/build/dev" -G Ninja -DCMAKE_BUILD_TYPE=Debug >"$work/log" 2>&1 ||
    { cat "$work/log" && exit 1; }

say() { # ROW RESULT TEST
    printf '%-5s %-9s %s\n' "$1" "$2" "$3" | tee -a "$results"
}

plant() { # ROW FILE PERL_EXPRESSION TEST
    local row=$1 file=$2 expression=$3 test=$4
    [ "$wanted" = "  " ] || [[ $wanted == *" $row "* ]] || return 0
    ! grep -q "^$row  *seen" "$results" || return 0
    cp "$tree/$file" "$work/kept"
    perl -0pi -e "$expression" "$tree/$file"
    if cmp -s "$tree/$file" "$work/kept"; then
        say "$row" "NO TEXT" "$file"
        failed=1
        return 0
    fi
    if ! cmake --build "$tree/build/dev" --target "$test" phasor_stand_in_driver phasor_stand_in_nvrtc >"$work/log" 2>&1; then
        say "$row" "NO BUILD" "$test"
        failed=1
    elif (cd "$tree/build/dev/tests" && timeout 1200 "./$test" --jobs 2 >"$work/log" 2>&1); then
        say "$row" "NOT SEEN" "$test"
        failed=1
    else
        say "$row" seen "$test"
    fi
    cp "$work/kept" "$tree/$file"
}

# Reports
plant r16 src/rewrite/pair_product.c 's/x\.re, y\.im, bc\)/x.re, y.im, negated(p, bc))/' test_reports
plant r23 src/rewrite/pair_structure.c 's/part_view\(p, node, 1\)/part_view(p, node, 0)/' test_rewrite_cases
plant r26 src/rewrite/pair_product.c 's/z\.re, negated\(p, z\.im\)/z.re, z.im/' test_reports
plant r31 src/rewrite/pair_structure.c 's/(pair_operand\(p, node, 1\)), pair_operand\(p, node, 2\)/pair_operand(p, node, 2), $1/' test_rewrite_cases
plant r41 src/rewrite/pair_structure.c 's/cast_or_copy\(p, z\.re, node/cast_or_copy(p, z.im, node/' test_rewrite_cases
plant r49 src/rewrite/pair_quotient.c 's/OP_ge, c, d/OP_lt, c, d/' test_reports
plant r13 src/load/aten_elementwise.c 's/OP_mul, y, aten_as\(a, factor, dtype\)/OP_add, y, aten_as(a, factor, dtype)/' test_kernels
plant rL11 src/rewrite/pair_exponential.c 's/binary\(p, OP_atan2, z\.im, z\.re\)\}/binary(p, OP_atan2, z.re, z.im)}/' test_special
plant r29 src/rewrite/pair_product.c 's/OP_fma, x\.re, y\.re, negated\(p, bd\)/OP_fma, x.re, y.re, bd/' test_rewrite_cases

# Caches
plant c1 cache/cache.c 's/const bool whole = cache_kernel_is_whole\(row, query->key, query->arch\)/const bool whole = true/' test_cache_damage
plant c3 cache/store.c 's/kind == SQLITE_CORRUPT \|\| kind == SQLITE_NOTADB/kind == SQLITE_FORMAT/' test_cache_damage
plant c5 cache/cache_write.c 's/SELECT 0, unit, 0 FROM kernel;/SELECT 0, unit, 0 FROM kernel WHERE 0;/' test_cache
plant c8 cache/store_open.c 's/sqlite3_busy_timeout\(store->db, BUSY_WAIT_MS\)/sqlite3_busy_timeout(store->db, 0)/' test_cache_shared
plant c18 cache/row_check.c 's/text_hash\(arch\), text_hash\(name\), text_hash\(toolchain\)/text_hash(arch), text_hash(name), text_hash(arch)/' test_cache_damage
plant c27 cache/location.c 's/mkdir\(path, 0700\)/mkdir(path, 0755)/' test_cache_damage
plant c33 cache/store.c 's/u\.toolchain = \?4\)/1)/' test_cache
plant c35 cache/cache.c 's/key_size, cache->stamp\)/key_size, "")/' test_cache
plant c46 cache/store.c 's/AND k\.canonical = \?3/AND (k.canonical = ?3 OR 1)/' test_cache
plant c48 src/context/runtime.c 's/RETIRED_MAX = 64/RETIRED_MAX = 6400/' test_runtime_cache
plant c52d cache/cache_layers.c 's/TRY\(layer_check\(file, cache->trust\)\);//' test_cache_layers
plant c52e cache/schema.c 's/ && ours && count == statements_count\(\)//' test_cache_damage
plant c52f cache/cache_write.c 's/found_evict\(cache, other_plans_sql, target, &used\)/SQLITE_OK/' test_cache
exit $failed
