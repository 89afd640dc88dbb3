#!/usr/bin/env bash
# Runs every case on a GPU against eager's outputs: PHASOR=path/of/phasor CASES=tests/cases tests/gpu/cases.sh [NAME...]
# Both forms where a folder has both, every input set; a second pass in new processes without NVRTC must compile nothing.
set -u
phasor=${PHASOR:?} cases=${CASES:?}
cache=$(mktemp -d)
trap 'rm -rf "$cache"' EXIT
names=("$@")
[ ${#names[@]} -gt 0 ] || names=($(ls "$cases"))
passed=0 failed=0

# run_case LABEL FOLDER FORM SET EXTRA...
run_case() {
    local label=$1 folder=$2 form=$3 set=$4
    shift 4
    local log
    if log=$("$phasor" run "$folder/$form.pt2" --inputs "$folder/inputs_$set.safetensors" \
        --expect "$folder/outputs_$set.safetensors" --device cuda --cache "$cache" --json "$@" 2>&1); then
        if [ "$label" = warm ] && ! grep -q '"compiled": 0,' <<<"$log"; then
            echo "FAILED $label $folder $form $set: compiled something"
            failed=$((failed + 1))
        else
            passed=$((passed + 1))
        fi
    else
        echo "FAILED $label $folder $form $set: $(head -c 600 <<<"$log")"
        failed=$((failed + 1))
    fi
}

for pass in cold warm; do
    [ $pass = warm ] && export PHASOR_NVRTC=/nonexistent/libnvrtc.so
    for name in "${names[@]}"; do
        folder=$cases/$name
        case $name in left_complex32 | left_five) continue ;; esac
        for set in 0 1 2 3; do
            [ -f "$folder/inputs_$set.safetensors" ] || continue
            extra=()
            case $name in hf_*) extra=(--rtol 1e-4 --atol 1e-4) ;; esac
            for form in plain core; do
                [ -f "$folder/$form.pt2" ] && run_case $pass "$folder" $form $set "${extra[@]}"
            done
        done
    done
done
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
