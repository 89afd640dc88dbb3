#!/usr/bin/env bash
# gpu/sanitize.sh believes no tool that reports an error, ends early or says nothing:
# check_sanitize.sh PHASOR CASES STAND_IN_DRIVER STAND_IN_NVRTC. The tool is a stand-in too.
set -euo pipefail
folder=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PHASOR=$1 CASES=$2 PHASOR_DRIVER=$3 PHASOR_NVRTC=$4 JOBS=2

# It says what FAKE names: once it has run the program. sanitize.sh hides the NVRTC, so a compile would be a failure.
cat >"$work/compute-sanitizer" <<'EOF'
#!/usr/bin/env bash
tool=$2 log=$4
shift 4
"$@" || exit
echo "========= COMPUTE-SANITIZER" >"$log"
case $tool:${FAKE:-} in
racecheck:hazard) echo "========= RACECHECK SUMMARY: 1 hazard displayed (0 errors, 1 warning)" >>"$log" ;;
racecheck:*) echo "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)" >>"$log" ;;
initcheck:silent) ;;
memcheck:error)
    echo "========= Invalid __global__ read of size 4 bytes" >>"$log"
    echo "========= ERROR SUMMARY: 3 errors" >>"$log"
    ;;
memcheck:killed) kill -9 $$ ;;
*) echo "========= ERROR SUMMARY: 0 errors" >>"$log" ;;
esac
EOF
chmod +x "$work/compute-sanitizer"
export PATH=$work:$PATH

# expect STATUS FAKE PATTERN
expect() {
    local status=0 out
    out=$(FAKE=$2 bash "$folder/gpu/sanitize.sh" op_neg op_pad 2>&1) || status=$?
    if [ "$status" != "$1" ] || ! grep -q -- "$3" <<<"$out"; then
        printf 'with "%s": ended with %s, not %s, or without "%s":\n%s\n' "$2" "$status" "$1" "$3" "$out"
        exit 1
    fi
}

expect 0 "" "^racecheck: 4 programs, 0 errors, 0 failed"
expect 1 error "^memcheck: 4 programs, 12 errors, 4 failed"
expect 1 error "Invalid __global__ read"
expect 1 hazard "^racecheck: 4 programs, 4 errors, 4 failed"
expect 1 silent "no summary in its log"
expect 1 killed "exit code 137"
PHASOR_DRIVER=/there/is/none.so expect 1 "" "first all must run without"
