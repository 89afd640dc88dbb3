# support.sh - what the tests of the command share: each test_*.sh sources it, makes its claims, ends with `finish`.
#
#     PHASOR=build/dev/phasor CASES=tests/cases bash tests/cli/test_usage.sh
#
#     expect_exit 2 run                   "phasor run" exits with 2
#     expect_output '"ok": true'          the standard output of that command has this text
#     expect_message 'usage'              its standard error has this one
set -u
: "${PHASOR:?names the command}" "${CASES:?names the folder of cases}"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export PHASOR_CACHE_DIR=$scratch/cache
unset PHASOR_CACHE PHASOR_NO_COMPILE PHASOR_LOG
claims=0
failures=0
last=

say_failure() {
    failures=$((failures + 1))
    echo "FAILED: phasor $last: $1"
    sed 's/^/    out: /' "$scratch/out" | cut -c 1-300 | head -20
    sed 's/^/    err: /' "$scratch/err" | cut -c 1-300 | head -20
}

expect_exit() {
    local wanted=$1 status=0
    shift
    last="$*"
    claims=$((claims + 1))
    "$PHASOR" "$@" >"$scratch/out" 2>"$scratch/err" </dev/null || status=$?
    [ "$status" -eq "$wanted" ] || say_failure "exit code $status, expected $wanted"
}

expect_output() {
    claims=$((claims + 1))
    grep -q -- "$1" "$scratch/out" || say_failure "standard output has no '$1'"
}

expect_message() {
    claims=$((claims + 1))
    grep -q -- "$1" "$scratch/err" || say_failure "standard error has no '$1'"
}

expect_silence() {
    claims=$((claims + 1))
    [ ! -s "$scratch/out" ] || say_failure "standard output should be empty"
}

# The number behind a key of the JSON on standard output.
json_number() {
    sed -n "s/.*\"$1\": \([-0-9.e+]*\).*/\1/p" "$scratch/out" | head -1
}

finish() {
    echo "$claims claims, $failures failed"
    [ "$failures" -eq 0 ]
}
