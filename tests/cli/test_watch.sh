# phasor run --watch: a change of the program, its inputs or a template runs it again, with what is another result or
# time; an error names the line and the loop goes on.
source "$(dirname "$0")/support.sh"

watching= # the process that watches
end_watch() {
    [ -z "$watching" ] || kill -KILL "$watching" 2>/dev/null
    rm -rf "$scratch"
}
trap end_watch EXIT

watch_start() { # options of phasor run --watch
    last="run $*"
    "$PHASOR" "$@" --watch >"$scratch/out" 2>"$scratch/err" </dev/null &
    watching=$!
}

# The number-th time that a file has the text; at most 60 seconds on a machine that is busy.
wait_for() { # out or err, text, number
    claims=$((claims + 1))
    for _ in $(seq 600); do
        [ "$(grep -c -- "$2" "$scratch/$1")" -lt "$3" ] || return 0
        kill -0 "$watching" 2>/dev/null || break
        sleep 0.1
    done
    say_failure "'$2' did not come $3 times in std$1"
}

never() { # text that standard output must not have
    claims=$((claims + 1))
    ! grep -q -- "$1" "$scratch/out" || say_failure "standard output has '$1'"
}

watch_end() { # the signal; it ends at once, with the code for an interruption
    local status=0
    claims=$((claims + 1))
    kill "-$1" "$watching"
    wait "$watching" || status=$?
    watching=
    [ "$status" -eq 9 ] || say_failure "exit code $status after $1, expected 9"
}

replace() { # sed script, file: as editors do it, by another file and a rename
    sed "$1" "$2" >"$scratch/new" && mv "$scratch/new" "$2"
}

rope=$scratch/rope.phasor
expect_exit 0 show "$CASES/qk_rope_f32/plain.pt2" --stage loaded -o "$rope"
expect_exit 0 run "$rope" --device cpu --seed 1 --outputs "$scratch/expected.safetensors"
cp "$rope" "$scratch/whole.phasor"
mkdir "$scratch/templates"
echo '// 1' >"$scratch/templates/map.cu"
export PHASOR_TEMPLATE_DIR=$scratch/templates

watch_start run "$rope" --device cpu --seed 1 --expect "$scratch/expected.safetensors"
wait_for err 'watching 4 files' 1
wait_for out '^warm call ' 1
expect_output '^first call .* [mu]s$'
expect_output '^output_1 .*matches'
never 'before'

# another result of one output; that it is not the expected one ends nothing
replace 's/^mul = mul(view_as_complex, view)/mul = mul(view_as_complex, view_as_complex)/' "$rope"
wait_for out '^warm call .* was ' 1
expect_output "^$rope has changed"
expect_output '^output_0 .* of 8704 elements differ from before, max abs [0-9.e+]*, max rel'
expect_output '^output_1 .*the same bits as before'
expect_output '^output_0 .*DIFFERS'
expect_output '^first call .*, was .*, [-+][0-9]* %'

# an error has its line, also when the file is gone for a while; the next run is compared with the last that worked
replace 's/^mul = mul(/mul = mull(/' "$rope"
wait_for err 'waiting for the next change' 1
expect_message "$rope:12: no operator 'mull'"
rm "$rope"
wait_for err 'waiting for the next change' 2
cp "$scratch/whole.phasor" "$rope"
wait_for out '^warm call .* was ' 2
expect_output '^output_0 .*matches'

# templates: one that is there, and a new one; what an editor keeps beside them is none
echo '// another length' >"$scratch/templates/map.cu"
wait_for out "^$scratch/templates/map.cu has changed" 1
wait_for out '^output_0 .*the same bits as before' 1
echo 'x' >"$scratch/templates/.map.cu.swp"
echo '// 2' >"$scratch/templates/new.cuh"
wait_for out "^$scratch/templates/new.cuh has changed" 1
wait_for out '^output_0 .*the same bits as before' 2
never 'swp'
watch_end INT
unset PHASOR_TEMPLATE_DIR

# an archive and its inputs: another form of the same program, other sizes
case=$CASES/qk_rope_bf16_dynamic
cp "$case/plain.pt2" "$scratch/rope.pt2"
cp "$case/inputs_1.safetensors" "$scratch/inputs.safetensors"
watch_start run "$scratch/rope.pt2" --device cpu --inputs "$scratch/inputs.safetensors"
wait_for err 'watching 2 files' 1
cp "$case/core.pt2" "$scratch/rope.pt2"
wait_for out '^output_0 .*the same bits as before' 1
cp "$case/inputs_0.safetensors" "$scratch/inputs.safetensors"
wait_for out '^output_0 .*bf16\[2, 33, 8, 128\], was bf16\[3, 7, 8, 128\]' 1
cp "$rope" "$scratch/inputs.safetensors"
wait_for err 'waiting for the next change' 1
expect_message "$scratch/inputs.safetensors: not a safetensors file"
watch_end TERM

# where the compiler's errors are: the line of the template
stand_ins=$(dirname "$PHASOR")/tests
if [ -e "$stand_ins/libphasor_stand_in_driver.so" ]; then
    export PHASOR_DRIVER=$stand_ins/libphasor_stand_in_driver.so PHASOR_NVRTC=$stand_ins/libphasor_stand_in_nvrtc.so
    cp "$(dirname "$0")"/../../templates/*.cu* "$scratch/templates"
    export PHASOR_TEMPLATE_DIR=$scratch/templates
    watch_start run "$rope"
    wait_for out '^on the device ' 1
    cp "$scratch/templates/device.cuh" "$scratch/device.cuh"
    echo 'int broken = ;' >>"$scratch/templates/device.cuh"
    wait_for err 'waiting for the next change' 1
    expect_message "device.cuh:$(wc -l <"$scratch/templates/device.cuh"):"
    cp "$scratch/device.cuh" "$scratch/templates/device.cuh"
    wait_for out '^on the device .* was ' 1
    expect_output '^output_0 .*the same bits as before'
    watch_end INT
fi

# what no edit mends ends it at once
expect_exit 4 run "$scratch/missing.pt2" --device cpu --watch
expect_exit 2 run "$rope" --device gpu --watch
expect_exit 7 run "$rope" --device cuda:9 --watch
finish
