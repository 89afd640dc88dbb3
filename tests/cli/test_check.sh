# phasor check: what cannot be rewritten is listed in order, with exit code 3; everything else is fine.
source "$(dirname "$0")/support.sh"

first_target() {
    sed 's/}.*//; s/.*"target": "//; s/".*//' "$scratch/out"
}

# case, form, the first operator that the ExecuTorch rules cannot rewrite
left() {
    expect_exit 3 check "$CASES/$1/$2.pt2" --rules executorch --json
    expect_output '"ok": false'
    claims=$((claims + 1))
    [ "$(first_target)" = "$3" ] || say_failure "first target $(first_target), expected $3"
}
left left_complex_add plain aten.add.Tensor
left left_complex_add core aten.add.Tensor
left left_complex_input plain input
left left_complex_input core input
left left_complex32 plain aten.view_as_complex.default
left left_complex32 core aten.view_as_complex.default
left left_channels_last plain aten.contiguous.default
left left_channels_last core aten.clone.default
left left_cast_to_real plain aten.to.dtype
left left_cast_to_real core aten._to_copy.default
left left_mutated_buffer plain aten.mul_.Tensor

# left_five is refused by both rule sets, with five operators in order
for rules in executorch all; do
    expect_exit 3 check "$CASES/left_five/plain.pt2" --rules $rules --json
    targets=$(grep -o '"target": "[^"]*"' "$scratch/out" | sed 's/.*"aten\.\([a-z_]*\).*/\1/' | tr '\n' ' ')
    claims=$((claims + 1))
    [ "$targets" = "fft_fft linalg_inv linalg_solve fft_ifft linalg_det " ] || say_failure "targets $targets"
    claims=$((claims + 1))
    [ "$(grep -o '"line": "[^"]*programs.py:[0-9]*' "$scratch/out" | wc -l)" -eq 5 ] || say_failure "lines are missing"
done
expect_exit 3 check "$CASES/left_five/plain.pt2"
expect_output 'cannot be rewritten'
expect_output '1  aten.fft_fft.default: '
expect_output 'programs.py:'

# a program left as it is shows the same text before and after
for form in plain core; do
    expect_exit 0 show "$CASES/left_complex_add/$form.pt2" --rules executorch --stage loaded -o "$scratch/loaded"
    expect_exit 0 show "$CASES/left_complex_add/$form.pt2" --rules executorch --stage real -o "$scratch/real"
    claims=$((claims + 1))
    cmp -s "$scratch/loaded" "$scratch/real" || say_failure "loaded and real differ"
done

for case in qk_rope_f32 joins twice int_input; do
    for rules in executorch all; do
        expect_exit 0 check "$CASES/$case/plain.pt2" --rules $rules --json
        expect_output '"ok": true, "refused": \[\]'
    done
done
expect_exit 0 check "$CASES/qk_rope_f32/core.pt2"
expect_output 'can be rewritten and run'

# files that are no programs
expect_exit 4 check "$scratch/nothing.pt2"
expect_message 'nothing.pt2'
echo 'no program' >"$scratch/text.pt2"
expect_exit 4 check "$scratch/text.pt2"
head -c 1000 "$CASES/qk_rope_f32/plain.pt2" >"$scratch/half.pt2"
expect_exit 4 check "$scratch/half.pt2" --json
expect_silence
finish
