#!/usr/bin/env bash
# serve.sh - what a server needs of a GPU: threads, capture, contexts, devices, memory, shipped
# kernels.
#
#     PHASOR=path/of/phasor CASES=tests/cases tests/gpu/serve.sh [NAME...]
#
#     threads    16 threads with warm calls on one program, beside the driver's bare launches
#     capture    calls captured into CUDA graphs
#     contexts   primary and own contexts of one device
#     two        two GPUs in one process
#     shapes     100 000 random shapes: memory is flat
#     shipped    kernels compiled elsewhere, with NVRTC hidden
#
# The programs gpu_* are looked for beside PHASOR, then in tests/ beside it; PROGRAMS names another
# folder. THREADS_ARGS, CAPTURE_ARGS, ... choose other work; shipped.sh has its own variables. Ends
# with the count; exit 1 when something failed.
set -u
phasor=${PHASOR:?} cases=${CASES:?}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
programs=${PROGRAMS:-$(dirname "$phasor")}
[ -x "$programs/gpu_threads" ] || programs=$programs/tests
passed=0 failed=0 skipped=0

# run_one NAME COMMAND...
run_one() {
    local name=$1 status=0 start=$SECONDS
    shift
    "$@" >"$log" 2>&1 </dev/null || status=$?
    sed 's/^/  /' "$log"
    case $status in
    0) passed=$((passed + 1)) && echo "$name: passed, $((SECONDS - start)) s" ;;
    77) skipped=$((skipped + 1)) && echo "$name: skipped" ;;
    *) failed=$((failed + 1)) && echo "$name: FAILED, exit $status" ;;
    esac
}

log=$(mktemp)
trap 'rm -f "$log"' EXIT
names=("$@")
[ ${#names[@]} -gt 0 ] || names=(threads capture contexts two shapes shipped)
for name in "${names[@]}"; do
    # shellcheck disable=SC2086 # several arguments in one variable
    case $name in
    threads) run_one "$name" "$programs/gpu_threads" "$cases" ${THREADS_ARGS:-16 10000 16 75} ;;
    capture) run_one "$name" "$programs/gpu_capture" "$cases" ${CAPTURE_ARGS:-} ;;
    contexts) run_one "$name" "$programs/gpu_devices" "$cases" contexts ${CONTEXTS_ARGS:-} ;;
    two) run_one "$name" "$programs/gpu_devices" "$cases" two ${TWO_ARGS:-} ;;
    shapes) run_one "$name" "$programs/gpu_shapes" "$cases" ${SHAPES_ARGS:-} ;;
    shipped) run_one "$name" env PHASOR="$phasor" CASES="$cases" bash "$here/shipped.sh" ;;
    *) failed=$((failed + 1)) && echo "$name: there is no such test" ;;
    esac
done
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
