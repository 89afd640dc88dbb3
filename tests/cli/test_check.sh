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

# the time is linear in what is unknown, whether each operator is another or all are one
many_unknown() { # FILE, an awk expression of i: the operator
    {
        printf 'phasor 1 "many"\ninput x: f32[3]\noutput u0: f32[3]\n\n'
        awk "BEGIN { for (i = 0; i < 20000; i++)
            printf \"u%d = unknown(x) text=\\\"aten.%s.default\\\" sizes=[3] : f32[3]    #: aten.%s.default @ a.py:%d\\n\", i, $2, $2, i }"
    } >"$1"
}
many_unknown "$scratch/different.phasor" '"mystery_" i'
many_unknown "$scratch/same.phasor" '"mystery"'
for program in different same; do
    started=$SECONDS
    expect_exit 3 check "$scratch/$program.phasor" --log off
    expect_output 'u19999, a.py:19999'
    claims=$((claims + 1))
    [ $((SECONDS - started)) -lt 8 ] || say_failure "$((SECONDS - started)) s for 20000 unknown operators"
done
expect_output '20000  aten.mystery.default: '

# what a terminal would obey is shown, not obeyed: of names, operators and source lines, on both streams
escape=$(printf '\033') csi=$(printf '\302\233')
printf 'phasor 1 "evil"\ninput x: f32[3]\noutput u: f32[3]\n\nu = unknown(x) text="aten.a%s[31mb.default" sizes=[3] : f32[3]    #: aten.x @ %s]0;title \303\251 %s2J.py:7\n' \
    "$escape" "$escape" "$csi" >"$scratch/evil.phasor"
for arguments in "check" "show --stage loaded" "run"; do
    last="$arguments evil.phasor"
    claims=$((claims + 2))
    "$PHASOR" $arguments "$scratch/evil.phasor" --log warning >"$scratch/out" 2>"$scratch/err" </dev/null
    ! grep -q -e "$escape" -e "$csi" "$scratch/out" "$scratch/err" || say_failure "an escape sequence comes through"
    cat "$scratch/out" "$scratch/err" | grep -q '\\x1b' || say_failure "the escape is not shown"
done
expect_exit 3 check "$scratch/evil.phasor"
expect_output 'é'
expect_output 'x9b2J'
expect_message 'x1b'
expect_exit 3 check "$scratch/evil.phasor" --json
expect_output 'u001b'

# files that are no programs
expect_exit 4 check "$scratch/nothing.pt2"
expect_message 'nothing.pt2'
echo 'no program' >"$scratch/text.pt2"
expect_exit 4 check "$scratch/text.pt2"
head -c 1000 "$CASES/qk_rope_f32/plain.pt2" >"$scratch/half.pt2"
expect_exit 4 check "$scratch/half.pt2" --json
expect_silence
finish
