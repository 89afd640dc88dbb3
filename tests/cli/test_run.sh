# phasor run on the CPU device: inputs, comparison, JSON, files.
source "$(dirname "$0")/support.sh"

# every form and input set of a few cases matches what PyTorch returned
for case in qk_rope_f32 qk_rope_bf16_dynamic int_input nested_inputs twice alias_mix mutates_input cache_step op_complex_output; do
    for form in plain core; do
        for inputs in "$CASES/$case"/inputs_*.safetensors; do
            expected=${inputs/inputs_/outputs_}
            expect_exit 0 run "$CASES/$case/$form.pt2" --device cpu --inputs "$inputs" --expect "$expected"
            expect_output 'matches'
        done
    done
done

rope=$CASES/qk_rope_f32/plain.pt2
files=(--inputs "$CASES/qk_rope_f32/inputs_0.safetensors" --expect "$CASES/qk_rope_f32/outputs_0.safetensors")
expect_exit 0 run "$rope" --device cpu "${files[@]}" --json
for field in '"device": "cpu"' '"mode": "cpu"' '"kernels": [0-9]' '"setup_kernels": ' '"compiled": 0' '"cache_hits": 0' \
    '"outputs": \[{"name": "' '"kind": "tensor"' '"dtype": "f32"' '"shape": \[' '"strides": \[' '"offset": 0' \
    '"storage": 0' '"match": true' '"max_abs": [0-9]' '"max_rel": [0-9]'; do
    expect_output "$field"
done
expect_exit 1 run "$rope" --device cpu "${files[@]}" --rtol 0 --atol 0 --seed 0 --json --expect "$CASES/twice/outputs_0.safetensors"
expect_output '"match": false, "max_abs": null'
expect_message 'expected'

# other values, the number of outputs, and kinds differ: exit code 1
expect_exit 0 run "$rope" --device cpu --seed 1 --outputs "$scratch/one.safetensors"
expect_exit 0 run "$rope" --device cpu --seed 1 --expect "$scratch/one.safetensors" --rtol 0 --atol 0
expect_exit 0 run "$rope" --device cpu --seed 1 --repeat 3 --expect "$scratch/one.safetensors" --rtol 0 --atol 0
expect_exit 1 run "$rope" --device cpu --seed 2 --expect "$scratch/one.safetensors"
expect_output 'DIFFERS'
expect_message 'numbers differ, first \['
expect_exit 0 run "$rope" --device cpu --seed 2 --expect "$scratch/one.safetensors" --atol 1e9
expect_exit 1 run "$CASES/qk_rope_bf16_dynamic/plain.pt2" --device cpu --expect "$scratch/one.safetensors"

# each run starts from the initial state and inputs
for case in cache_step mutates_input; do
    expect_exit 0 run "$CASES/$case/plain.pt2" --device cpu --repeat 3 --inputs "$CASES/$case/inputs_0.safetensors" \
        --expect "$CASES/$case/outputs_0.safetensors"
done

# complex outputs keep their dtype on the way through a file
expect_exit 0 run "$CASES/op_complex_output/plain.pt2" --device cpu --json --outputs "$scratch/complex.safetensors"
expect_output '"dtype": "c64"'
expect_exit 0 run "$CASES/op_complex_output/plain.pt2" --device cpu --expect "$scratch/complex.safetensors" --rtol 0 --atol 0

# outputs that share a tensor share a storage number
expect_exit 0 run "$CASES/twice/plain.pt2" --device cpu --json
claims=$((claims + 1))
[ "$(grep -o '"storage": 0' "$scratch/out" | wc -l)" -ge 2 ] || say_failure "no two outputs share memory"

# sizes by name; unknown names and sizes out of range are inputs that the program does not take
dynamic=$CASES/int_input/plain.pt2
expect_exit 0 run "$dynamic" --device cpu --json --dim x.1=7 --dim start=9
expect_output '"shape": \[2, 7, 2, 16\]'
expect_exit 2 run "$dynamic" --device cpu --dim x.1=7,8
expect_exit 5 run "$dynamic" --device cpu --dim y.1=7
expect_message 'int_input/plain.pt2: y.1: neither .* inputs: x, start; symbols: s'
expect_exit 5 run "$rope" --device cpu --dim q.9x=1
expect_message 'qk_rope_f32/plain.pt2: q.9x: neither .* symbols: none'
expect_exit 5 run "$dynamic" --device cpu --dim x.1=1000
expect_message 'int_input/plain.pt2: x.1: 1000 is out of range'
expect_exit 5 run "$rope" --device cpu --inputs "$scratch/one.safetensors"
expect_message 'input_0'
expect_exit 4 run "$rope" --device cpu --inputs "$scratch/missing.safetensors"
size=$(stat -c %s "$CASES/qk_rope_f32/inputs_0.safetensors")
head -c $((size - 1)) "$CASES/qk_rope_f32/inputs_0.safetensors" >"$scratch/cut.safetensors"
expect_exit 4 run "$rope" --device cpu --inputs "$scratch/cut.safetensors"
expect_message "cut.safetensors: the file is cut off: it has $((size - 1)) bytes, its header asks for $size"
expect_exit 4 run "$rope" --device cpu --expect "$rope"
expect_exit 4 run "$rope" --device cpu --outputs "$scratch/no/such/folder.safetensors"

# a folder that is named is there; a limit on sizes is an error, not a signal
export PHASOR_TEMPLATE_DIR=$scratch/none
expect_exit 4 run "$rope" --device cpu
expect_message "PHASOR_TEMPLATE_DIR names $scratch/none: No such file"
export PHASOR_TEMPLATE_DIR=$rope
expect_exit 4 run "$rope" --device cpu
expect_message "a folder is expected"
unset PHASOR_TEMPLATE_DIR
export PHASOR_DUMP=$scratch/none
expect_exit 4 run "$rope" --device cpu
expect_message "PHASOR_DUMP names $scratch/none: No such file"
unset PHASOR_DUMP
(
    ulimit -f 4
    expect_exit 4 run "$rope" --device cpu --cache :memory: --outputs "$scratch/limited.safetensors"
    expect_message 'limited.safetensors: File too large'
    [ "$failures" -eq 0 ]
) || failures=$((failures + 1))

# what was not rewritten runs on the CPU, and says so; an operator without meaning here does not
left=$CASES/left_complex_add
expect_exit 0 run "$left/plain.pt2" --rules executorch --inputs "$left/inputs_0.safetensors" --expect "$left/outputs_0.safetensors"
expect_message 'running on the CPU device'
expect_exit 3 run "$CASES/left_five/plain.pt2" --device cpu
expect_message 'phasor check lists the others'
finish
