# phasor show, doctor and cache: the stages as text, and files that can be run again.
source "$(dirname "$0")/support.sh"
rope=$CASES/qk_rope_f32

expect_exit 0 show "$rope/plain.pt2" --stage loaded
expect_output 'view_as_complex'
expect_output 'c64'
expect_exit 0 show "$rope/plain.pt2"
expect_output 'f32'
claims=$((claims + 1))
! grep -q 'c64' "$scratch/out" || say_failure "a complex tensor is left"

# a program written as text gives the same results, at either stage
for stage in loaded real; do
    expect_exit 0 show "$rope/plain.pt2" --stage $stage -o "$scratch/$stage.phasor"
    expect_silence
    expect_exit 0 run "$scratch/$stage.phasor" --device cpu --inputs "$rope/inputs_0.safetensors" \
        --expect "$rope/outputs_0.safetensors"
done

# dims that are expressions keep their meaning
derived=$CASES/fault_derived_two_of_one
expect_exit 0 show "$derived/plain.pt2" --stage loaded -o "$scratch/derived.phasor"
claims=$((claims + 1))
grep -q '^symbol s6 in 1..37 = 7    # a.0 = 2\*s6 + 1, b.0 = 4\*s6$' "$scratch/derived.phasor" ||
    say_failure "it is not said where s6 binds"
for set in 1 2; do
    expect_exit 0 run "$scratch/derived.phasor" --device cpu \
        --inputs "$derived/inputs_$set.safetensors" --expect "$derived/outputs_$set.safetensors"
done

dynamic=$CASES/qk_rope_bf16_dynamic/plain.pt2
expect_exit 0 show "$dynamic" --stage plan --arch sm_90 --json
expect_output '"kernels": *\['
expect_output '"setup": false, "gains": false'
expect_exit 0 show "$dynamic" --stage cuda --arch sm_90
expect_output '__global__'
expect_exit 0 show "$dynamic" --stage cuda -o "$scratch/rope.cu"
expect_message 'sm_90\|^$'
expect_exit 4 show "$dynamic" --stage cuda --arch sm_90 -o "$scratch/no/such/folder.cu"
expect_exit 3 show "$CASES/left_five/plain.pt2" --stage cuda --arch sm_90
expect_exit 5 show "$dynamic" --stage plan --arch sm_90 --dim nobody.1=3

# Sizes as arguments, and vectors along a dim that they divide.
printf '%s\n' 'phasor 1 "add"' 'symbol n in 1..64 = 8    # x.0' 'symbol m in 1..64 = 8    # x.1' 'input x: f32[n, m]' \
    'input y: f32[m]' 'output z = z' 'z = add(x, y)' >"$scratch/add.phasor"
expect_exit 0 show "$scratch/add.phasor" --stage cuda --mode generic --arch sm_90 --dim x.1=16
expect_output 'read16(a.p1, i)'
expect_exit 0 show "$scratch/add.phasor" --stage cuda --mode generic --arch sm_90 --dim x.1=15
expect_output 'read4(a.p1, i)'

# What is written to an input aside is kept for all its readers.
expect_exit 0 show "$CASES/../text/written_reduction.phasor" --stage cuda --arch sm_90

expect_exit 0 doctor
expect_exit 0 doctor --json
expect_output '^{'
PHASOR_CUBLASLT=/there/is/none.so expect_exit 0 doctor
expect_output 'cublaslt      missing: PHASOR_CUBLASLT=/there/is/none.so cannot be opened'
expect_exit 0 cache path
expect_output "$PHASOR_CACHE_DIR/phasor.db"
expect_exit 0 cache stats --json
for field in kernels plans bytes hits misses foreign compiles evictions repairs last_trouble; do
    expect_output "\"$field\": "
done
expect_exit 0 cache list
expect_exit 0 cache clear
expect_exit 0 cache path --cache :memory:
expect_output ':memory:'
# a list of hundreds of tensors is several kernels, none of which has a source of hundreds of kilobytes
{
    printf 'phasor 1 "list"\ninput x: f32[3, 4]\noutput y: f32[1200, 4]\n\n'
    awk 'BEGIN { for (i = 0; i < 400; i++) printf "m%d = add(x, x) : f32[3, 4]\n", i
        printf "y = concat("; for (i = 0; i < 400; i++) printf "%sm%d", i ? ", " : "", i
        print ") axis=0 : f32[1200, 4]" }'
} >"$scratch/list.phasor"
expect_exit 0 show "$scratch/list.phasor" --stage cuda --arch sm_90
claims=$((claims + 1))
longest=$(awk '/__global__/ { if (size > most) most = size; size = 0 } { size += length($0) + 1 }
    END { print (size > most ? size : most) }' "$scratch/out")
[ "$longest" -lt 150000 ] || say_failure "a kernel has $longest bytes of source"
finish
