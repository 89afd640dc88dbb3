#!/usr/bin/env bash
# check_host.sh - hosts with habits: numbers are read, folded and printed as ever.
#
#     check_host.sh FOLDER        FOLDER: of the tests' programs and of libphasor_stand_in_host.so
#
# Tests that pass by themselves pass again in a process that
#   - writes 1,5 for 1.5 (setlocale(LC_ALL, ...)),
#   - rounds upward and has no denormal numbers (fesetround, MXCSR), where the test's own arithmetic
#     is exact.
# The locale is made here, for Debian's C library has none with a comma.
set -euo pipefail
programs=$1
locales=$(mktemp -d)
trap 'rm -rf "$locales"' EXIT

{
    printf '<code_set_name> PLAIN\n<comment_char> %%\n<escape_char> /\nCHARMAP\n'
    for byte in {0..127}; do
        printf '<U%04X> /x%02x C%d\n' "$byte" "$byte" "$byte"
    done
    printf 'END CHARMAP\n'
} >"$locales/plain"
printf '%s\n' LC_NUMERIC 'decimal_point ","' 'thousands_sep "."' 'grouping 3;3' 'END LC_NUMERIC' \
    >"$locales/source"
localedef -c -f "$locales/plain" -i "$locales/source" "$locales/comma" >/dev/null 2>&1 ||
    [ -s "$locales/comma/LC_NUMERIC" ] # it warns of every category that is not there

failed=0
under() { # a habit, then programs
    local program habit=$1
    shift
    for program in "$@"; do
        if ! env ASAN_OPTIONS="${ASAN_OPTIONS:-}:verify_asan_link_order=0" LOCPATH="$locales" \
            LD_PRELOAD="$programs/libphasor_stand_in_host.so" "$habit" "$programs/$program" \
            >"$locales/said" 2>&1; then
            printf '%s fails with %s:\n' "$program" "$habit"
            tail -30 "$locales/said"
            failed=1
        fi
    done
}

core="test_text test_safetensors test_print test_load test_aten test_rewrite test_rewrite_cases
test_reports test_runtime_show"
# shellcheck disable=SC2086 # words
under PHASOR_HOST_LOCALE=comma $core test_eval test_compile
# shellcheck disable=SC2086
under PHASOR_HOST_ARITHMETIC=1 $core
exit $failed
