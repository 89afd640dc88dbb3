#!/usr/bin/env bash
# Runs every case on a GPU under NVIDIA's compute-sanitizer, one tool after the other:
# PHASOR=path/of/phasor CASES=tests/cases tests/gpu/sanitize.sh [NAME...]
#
#     op_pow plain 0 ...  ->  memcheck: 250 programs, 0 errors
#                             racecheck: 250 programs, 0 errors
#                             initcheck: 250 programs, 0 errors
#
# Ends with 0 when each program ran under each tool, gave the right outputs, and its log ends with a summary of no
# errors: a log without a summary is a failure. Kernels are compiled before, without the tool.
#
#     JOBS     processes at a time: as many as processors, 8 at least
#     FORMS    "plain core"
#     SETS     input sets: "0"; "0 1 2 3" are all of them
#     TOOLS    "memcheck racecheck initcheck"
#     LOGS     a folder that keeps the logs
set -u
phasor=${PHASOR:?} cases=${CASES:?}
read -ra forms <<<"${FORMS:-plain core}"
read -ra sets <<<"${SETS:-0}"
read -ra tools <<<"${TOOLS:-memcheck racecheck initcheck}"
processors=$(nproc) jobs=${JOBS:-$((processors > 8 ? processors : 8))}
names=("$@")
[ ${#names[@]} -gt 0 ] || mapfile -t names < <(ls "$cases")

sanitizer=$(PATH=$PATH:/usr/local/cuda/bin command -v compute-sanitizer) || {
    echo "compute-sanitizer is not installed: it comes with the CUDA toolkit"
    exit 77
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
logs=${LOGS:-$work/logs}
mkdir -p "$logs"

programs=() # each: NAME FORM SET
for name in "${names[@]}"; do
    case $name in left_complex32 | left_five) continue ;; esac
    for form in "${forms[@]}"; do
        for set in "${sets[@]}"; do
            [ -f "$cases/$name/$form.pt2" ] || continue
            [ -f "$cases/$name/inputs_$set.safetensors" ] && programs+=("$name $form $set")
        done
    done
done
[ ${#programs[@]} -gt 0 ] || {
    echo "$cases has none of these cases: ${names[*]}"
    exit 1
}

# run_program TOOL NAME FORM SET: under the tool, or "none". Leaves TOOL/NAME-FORM-SET.log, and .failed with the reason.
run_program() {
    local tool=$1 folder=$cases/$2 form=$3 set=$4 log=$logs/$1/$2-$3-$4
    local under=() tolerances=() status
    case $2 in hf_*) tolerances=(--rtol 1e-4 --atol 1e-4) ;; esac
    [ "$tool" = none ] || under=("$sanitizer" --tool "$tool" --log-file "$log.log")
    "${under[@]}" "$phasor" run "$folder/$form.pt2" --inputs "$folder/inputs_$set.safetensors" \
        --expect "$folder/outputs_$set.safetensors" "${tolerances[@]}" --device cuda --cache "$work/cache" >"$log.out" 2>&1
    status=$?
    [ $status = 0 ] || echo "exit code $status: $(tail -n 3 "$log.out" | head -c 600)" >"$log.failed"
    [ "$tool" = none ] && return
    # "ERROR SUMMARY: 2 errors", and of racecheck "RACECHECK SUMMARY: 1 hazard displayed (0 errors, 1 warning)"
    local found
    found=$(sed -n 's/.*\(ERROR\|RACECHECK\) SUMMARY: \([0-9]*\) .*/\2/p' "$log.log" 2>/dev/null | tail -n 1)
    if [ -z "$found" ]; then
        echo "no summary in its log" >>"$log.failed"
    elif [ "$found" != 0 ]; then
        echo "$found errors: $(grep -m 1 -A 3 '^========= [A-Z]' "$log.log" | grep -v COMPUTE-SANITIZER | head -c 600)" >>"$log.failed"
        echo "$found" >"$log.errors"
    fi
}

# run_all TOOL: all programs; prints what failed, then the counts.
run_all() {
    mkdir -p "$logs/$1"
    rm -f "$logs/$1"/*.failed "$logs/$1"/*.errors
    printf '%s\n' "${programs[@]}" | xargs -P "$jobs" -L 1 bash -c 'run_program "$@"' run "$1"
    local file failed=0 errors=0 number ran
    for file in "$logs/$1"/*.failed; do
        [ -e "$file" ] || continue
        echo "FAILED $1 $(basename "$file" .failed): $(cat "$file")"
        failed=$((failed + 1))
    done
    for file in "$logs/$1"/*.errors; do
        [ -e "$file" ] && read -r number <"$file" && errors=$((errors + number))
    done
    ran=$(find "$logs/$1" -name '*.out' | wc -l)
    [ "$1" = none ] || echo "$1: $ran programs, $errors errors, $failed failed, $SECONDS s"
    [ "$failed" = 0 ] && [ "$ran" = ${#programs[@]} ]
}

export phasor cases work logs sanitizer
export -f run_program
run_all none || {
    echo "no program is run under a tool: first all must run without"
    exit 1
}
export PHASOR_NO_COMPILE=1 PHASOR_NVRTC=/there/is/none.so
status=0
for tool in "${tools[@]}"; do
    SECONDS=0
    run_all "$tool" || status=1
done
exit $status
