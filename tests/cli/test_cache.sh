# phasor cache: every action, on a cache that prewarm filled; hostile directories; exit codes.
source "$(dirname "$0")/support.sh"
program=$CASES/qk_rope_bf16_dynamic/plain.pt2
unset PHASOR_CACHE_READONLY_DIRS PHASOR_CACHE_MAX_SIZE

expect_exit 2 cache show
expect_message 'needs a KEY'
expect_exit 2 cache export
expect_exit 2 cache import
expect_exit 2 cache stats more
expect_exit 2 cache nothing
expect_message 'expected stats'
expect_exit 2 cache gc --recompile
expect_exit 2 cache list -o "$scratch/x"
expect_exit 2 cache path --json
expect_exit 2 cache show zz
expect_message 'keys: they begin with hex digits (see cache list)'
expect_exit 2 cache show 0123
expect_message 'no key'

# An empty cache.
expect_exit 0 cache verify --json
expect_output '{"units": 0, "kernels": 0, "plans": 0, "bad": 0, '
expect_exit 0 cache gc --json
expect_output '"dropped": 0, "evicted": 0'
expect_exit 0 cache stats --json
expect_output '"repairs": 0, "skipped": 0, "refusals": 0, "last_trouble": null'

# Places that cannot be used: run does not mind, what is there for the store says 4.
expect_exit 4 cache verify --cache /proc/nothing/here
expect_exit 4 cache gc --cache /proc/nothing/here
expect_exit 4 cache export "$scratch/x.db" --cache /proc/nothing/here
mkdir -m 0777 "$scratch/open"
chmod 0777 "$scratch/open"
expect_exit 4 cache gc --cache "$scratch/open"
expect_message 'can be written by others'
expect_exit 0 cache gc --cache "$scratch/open" --trust-cache-dir
expect_exit 0 run "$CASES/qk_rope_f32/plain.pt2" --inputs "$CASES/qk_rope_f32/inputs_0.safetensors" \
    --expect "$CASES/qk_rope_f32/outputs_0.safetensors" --device cpu --cache "$scratch/open"
expect_message 'can be written by others'
mkdir -m 0700 "$scratch/dangling"
ln -s "$scratch/nowhere" "$scratch/dangling/phasor.db"
expect_exit 4 cache gc --cache "$scratch/dangling"
expect_message 'dangling/phasor.db is a symbolic link that leads nowhere'
PHASOR_CACHE_DIR='' XDG_CACHE_HOME=$scratch/xdg expect_exit 0 cache path
expect_output "^$scratch/xdg/phasor/phasor.db$"
if [ "$(id -u)" = 0 ]; then
    mkdir -m 0700 "$scratch/foreign"
    chown 65534 "$scratch/foreign"
    ln -s "$scratch/cache" "$scratch/link"
    chown -h 65534 "$scratch/link"
    expect_exit 4 cache gc --cache "$scratch/foreign"
    expect_message 'belongs to user 65534'
    expect_exit 4 cache gc --cache "$scratch/link"
    expect_message 'symbolic link'
fi

# Files that are no cache.
echo 'my notes' >"$scratch/notes"
expect_exit 4 cache export "$scratch/notes"
expect_message 'not overwritten'
expect_exit 4 cache import "$scratch/notes"
expect_exit 4 cache import "$scratch/nothing"
expect_exit 4 cache import "$scratch"

# The rest needs a compiler: the real one, or the stand-in that the build makes for tests.
if ! "$PHASOR" show "$program" --stage ptx --arch sm_90 >"$scratch/out" 2>"$scratch/err"; then
    stand_in=$(dirname "$PHASOR")/tests/libphasor_stand_in_nvrtc.so
    if [ ! -e "$stand_in" ]; then
        echo "no NVRTC: rows are not tested"
        finish
        exit
    fi
    export PHASOR_NVRTC=$stand_in
    stand_in_used=1
fi

expect_exit 0 prewarm "$program" --mode exact --arch sm_80,sm_90 --dim q.1=3 --json
compiled=$(json_number compiled)
expect_exit 0 cache verify --json
expect_output "\"kernels\": $compiled, "
expect_output '"bad": 0, '
expect_output '"problems": \[\]}'
expect_exit 0 cache verify --recompile
if [ -z "${stand_in_used:-}" ]; then
    expect_output ' compiled again, 0 skipped'
fi

# One row.
expect_exit 0 cache list --json
key=$(grep -o '"key": "[0-9a-f]*", "name"' "$scratch/out" | head -1 | cut -d '"' -f 4)
expect_exit 0 cache show "${key:0:10}" --arch sm_90
expect_output "^key  *$key"
expect_output '^arch  *sm_90'
expect_output '^device.cuh '
expect_output '^BLOCK '
expect_output '^registers '
expect_output '^compile_ms '
expect_output '__global__'
expect_exit 0 cache show "$key" --json
expect_output '"fields": {"key_bytes": '
expect_output '"arch": "sm_80"'
expect_output '"arch": "sm_90"'
expect_exit 2 cache show "$key" -o "$scratch/k.cubin"
expect_message 'name an arch'
expect_exit 0 cache show "$key" --arch sm_80 -o "$scratch/k.cubin"
claims=$((claims + 1))
[ "$(head -c 4 "$scratch/k.cubin" | tail -c 3)" = ELF ] || say_failure "the cubin is no ELF file"

# Why it missed.
expect_exit 0 prewarm "$program" --mode exact --arch sm_90 --dim q.1=4 --log info
expect_message 'q.1 size 4, there 3'
expect_message 'nearest .*COUNT0 .*, there '

# Shipped: a layer serves, an import takes.
expect_exit 0 cache export "$scratch/all.db" --json
kernels=$(json_number kernels)
claims=$((claims + 2))
[ "$(stat -c %a "$scratch/all.db")" = 444 ] || say_failure "the mode is not 0444"
[ "$kernels" -gt "$compiled" ] || say_failure "$kernels kernels exported"
export PHASOR_CACHE_READONLY_DIRS=$scratch/all.db
expect_exit 0 prewarm "$program" --mode exact --arch sm_80,sm_90 --dim q.1=3 --json --cache "$scratch/second"
expect_output "\"compiled\": 0, \"cache_hits\": $compiled, "
unset PHASOR_CACHE_READONLY_DIRS
expect_exit 0 cache import "$scratch/all.db" --json --cache "$scratch/third"
expect_output "{\"kernels\": $kernels, "
expect_output '"refused": 0'
expect_exit 0 cache import "$scratch/all.db" --json --cache "$scratch/third"
expect_output '{"kernels": 0, "plans": 0, '
expect_exit 0 cache verify --cache "$scratch/third"
PHASOR_NVRTC=/there/is/none PHASOR_CACHE_DIR=$scratch/third \
    expect_exit 0 prewarm "$program" --mode exact --arch sm_90 --dim q.1=3 --json
expect_output '"compiled": 0, '

# Damage is named, and repaired by gc.
if python3 -c 'import sqlite3' 2>"$scratch/err"; then
    python3 - "$scratch/third/phasor.db" <<'END'
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
db.execute("UPDATE unit SET cubin = zeroblob(100) WHERE id = (SELECT min(id) FROM unit)")
db.commit()
END
    expect_exit 1 cache verify --cache "$scratch/third"
    expect_output 'unit [0-9]* (sm_.*): the checksum is not that of its cubin'
    expect_output ' 1 bad'
    cp "$scratch/third/phasor.db" "$scratch/damaged.db"
    expect_exit 1 cache import "$scratch/damaged.db" --json --cache "$scratch/fourth"
    expect_output '"refused": 1, '
    expect_exit 0 cache stats --json --cache "$scratch/fourth"
    expect_output '"refusals": 1, '
    expect_exit 0 cache verify --cache "$scratch/fourth"
    expect_exit 0 cache gc --cache "$scratch/third" --json
    expect_output '"dropped": 1, '
    expect_exit 0 cache verify --cache "$scratch/third"
fi
printf 'no database' | dd of="$scratch/third/phasor.db" conv=notrunc 2>"$scratch/err"
expect_exit 1 cache verify --cache "$scratch/third" --json
expect_output 'broken-1'
expect_exit 0 cache verify --cache "$scratch/third"
expect_exit 0 cache gc --cache "$scratch/third" --json
expect_output '"set_aside": 1, '

# The cap, and clear.
PHASOR_CACHE_MAX_SIZE=64K expect_exit 0 cache gc --json
claims=$((claims + 1))
[ "$(json_number bytes)" -le 65536 ] || say_failure "the file is over the cap"
expect_exit 0 cache clear
expect_exit 0 cache stats --json
expect_output '"kernels": 0, "plans": 0, '
finish
