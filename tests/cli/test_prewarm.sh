# phasor prewarm: sizes times archs into a cache; a second time nothing is compiled.
source "$(dirname "$0")/support.sh"
program=$CASES/qk_rope_bf16_dynamic/plain.pt2
dim=q.1

expect_exit 4 prewarm "$program" --arch sm_90 --cache :memory:
expect_message 'in memory only'
expect_exit 4 prewarm "$scratch/nothing.pt2" --arch sm_90
expect_exit 3 prewarm "$CASES/left_five/plain.pt2" --arch sm_90
expect_exit 5 prewarm "$program" --arch sm_90 --dim nobody.1=3
expect_exit 4 prewarm "$program" --arch sm_90 --lengths "$scratch/nothing"
echo "$dim" >"$scratch/lengths"
expect_exit 4 prewarm "$program" --arch sm_90 --lengths "$scratch/lengths"
expect_message 'lengths:1'
expect_exit 0 prewarm "$program" --arch sm_90 --dim "$dim=99999999999" --json
expect_output '"compiled": 0, "cache_hits": 0, "failed": 0, "skipped": 1, "seconds": '

# The rest needs a compiler: the real one, or the stand-in that the build makes for tests.
expect_exit 0 doctor
if ! "$PHASOR" show "$program" --stage ptx --arch sm_90 >"$scratch/out" 2>"$scratch/err"; then
    stand_in=$(dirname "$PHASOR")/tests/libphasor_stand_in_nvrtc.so
    if [ ! -e "$stand_in" ]; then
        echo "no NVRTC: compiling is not tested"
        finish
        exit
    fi
    export PHASOR_NVRTC=$stand_in
fi

expect_exit 0 prewarm "$program" --arch sm_80,sm_90 --dim "$dim=3,5" --jobs 2 --json
expect_output '"failed": 0, "skipped": 0'
compiled=$(json_number compiled)
claims=$((claims + 1))
[ "$compiled" -ge 4 ] || say_failure "$compiled compiled, expected at least 4"
expect_exit 0 prewarm "$program" --arch sm_80,sm_90 --dim "$dim=3" --dim "$dim=5" --json
expect_output '"compiled": 0'
printf '# observed\n%s=3\n\n%s=5 # often\n' "$dim" "$dim" >"$scratch/lengths"
expect_exit 0 prewarm "$program" --arch sm_80 --lengths "$scratch/lengths" --json
expect_output '"compiled": 0'
PHASOR_NO_COMPILE=1 expect_exit 10 prewarm "$program" --arch sm_86 --dim "$dim=7" --json
expect_exit 0 prewarm "$program" --arch sm_90 --dim "$dim=3"
expect_output '0 kernels compiled'
finish
