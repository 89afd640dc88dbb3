#!/usr/bin/env bash
# check_layers.sh - tools/layers.sh accepts the sources, and sees each kind of violation in a copy.
#
#     a copy of src with #include "context/runtime.h" in src/base/hash.c  ->  layers.sh fails on it
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tools/layers.sh

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT

seen() { # FILE, TEXT at its end, PATTERN of what layers.sh must say
    local said
    rm -rf "${copy:?}"/*
    cp -r src cache include templates tools "$copy"
    mkdir "$copy/tests"
    printf '%b\n' "$2" >>"$copy/$1"
    if said=$(PHASOR_COLUMNS=130 PHASOR_LINES=700 tools/layers.sh "$copy"); then
        echo "layers.sh accepts $1 with: $2"
        exit 1
    fi
    if ! grep -q "^$1.*$3" <<<"$said"; then
        printf 'layers.sh does not say "%s" of %s:\n%s\n' "$3" "$1" "$said"
        exit 1
    fi
}

long=$(printf '%0140d' 0)
seen src/base/hash.c '#include "graph/graph.h"' 'src/base must not include "graph/graph.h"'
seen src/graph/graph.c '#include "eval/eval.h"' 'src/graph must not include'
seen src/codegen/codegen.c '#include <load/load.h>' 'src/codegen must not include'
seen src/compile/nvrtc.c '#  include "graph/size.h"' 'src/compile must not include'
seen src/eval/eval.c '#include "rewrite/rewrite.h"' 'src/eval must not include'
seen cache/cache.c '#include "device/device.h"' 'cache must not include'
seen tools/phasor/main.c '#include "base/memory.h"' 'tools/phasor must not include'
seen src/context/runtime.c '#include <sqlite3.h>' 'known to cache alone'
seen src/graph/graph.c '#include <zip.h>' 'known to src/load alone'
seen src/context/runtime.c '#include <cuda.h>' 'known to src/device alone'
seen src/device/device.c '#include <nvrtc.h>' 'known to src/compile alone'
seen src/plan/plan.h '#include "../graph/graph.h"' 'relative path'
seen src/plan/plan.h '#include "graph.h"' 'no folder'
seen src/plan/plan.h 'static int is_rope(void);' 'rotary embedding'
seen templates/map.cu '/* a\n rope */ // rope\nint rotary;' 'rotary embedding'
seen src/graph/scan.c 'double d(char *s) { return strtod(s, 0); }' 'locale of the host'
seen cache/cache.c 'void p(double d) { printf("%.*g", 3, d); }' 'locale of the host'
seen src/graph/scan.c 'void q(double d) { printf("%g", d); }' 'locale of the host'
seen src/plan/plan.h "/* $long */" 'wider than'
seen src/plan/plan.h "$(printf '\\n%.0s' $(seq 800))" 'the limit is'
echo "layers.sh sees what it must"
