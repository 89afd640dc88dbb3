#!/usr/bin/env bash
# layers.sh - checks who includes whom, and the size of files.
#
#     tools/layers.sh [ROOT]      ROOT: another copy of the sources
#
#     src/codegen/emit.c:3: src/codegen must not include "context/runtime.h" (may: base graph plan)
#     src/graph/print.c:9: <zip.h> is known to src/load alone
#     src/plan/fuse.c:88: knows what a rotary embedding is
#     src/graph/element.c:144: depends on the locale of the host: ...
#
# In: the text of src, cache, templates, tools and include. Out: one line for each violation, exit 1
# when there is one. A folder's headers are named as src/ has them ("graph/size.h"); the rules are
# the two tables below. PHASOR_COLUMNS and PHASOR_LINES are the limits that fail; what is over the
# style's own 100 columns and 600 lines is counted. Tables (.def) may be as wide as their rows.
set -euo pipefail
export LC_ALL=C.UTF-8

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "${1:-$here/..}"
columns=${PHASOR_COLUMNS:-130}
lines=${PHASOR_LINES:-700}
failed=0
list=$(mktemp)
trap 'rm -f "$list"' EXIT

# Which folders' headers a folder may include, besides its own and phasor.h.
may="
src/base:
src/graph: base
src/eval: base graph
src/load: base graph
src/rewrite: base graph eval
src/library: base device
src/plan: base graph library
src/codegen: base graph plan
src/compile: base
src/device: base
src/executable: base graph plan library cache
src/kernels: base plan codegen compile device cache executable call context
src/specialise: base graph eval load rewrite plan codegen compile device cache library executable kernels call context
src/call: base graph eval load plan device cache library executable kernels specialise context
src/context: base graph eval load rewrite plan codegen compile device cache library executable kernels specialise call
src/inspect: base graph eval load rewrite plan codegen compile device cache library executable kernels specialise call context
cache: base
tools/phasor:
tools/examples:
tools: base
include:
"

# The only folders that know a library. What stands in no row, the C library's, is free.
known="
zip.h src/load
jansson.h src/load
nvrtc.h src/compile
cuda.h src/device
sqlite3.h cache
xxhash.h src/base
dlpack/dlpack.h include
"

problem() {
    printf '%s\n' "$1"
    failed=1
}

sources() { # folders: their C and CUDA files
    find "$@" -type f \( -name '*.[ch]' -o -name '*.def' -o -name '*.cu' -o -name '*.cuh' \) | sort
}

# FILE:LINE:folder:"graph/size.h" of every include.
includes() {
    sources src cache include tools | xargs grep -nE '^[[:space:]]*#[[:space:]]*include' |
        sed -E 's/^([^:]+)\/([^:/]+):([0-9]+):[^"<]*(["<][^">]*[">]).*/\1 \1\/\2:\3 \4/'
}

includes_check() {
    local found
    found=$(includes | awk -v may="$may" -v known="$known" '
        BEGIN {
            rows = split(may, row, "\n")
            for (i = 1; i <= rows; i++) {
                at = index(row[i], ":")
                if (!at) continue
                folder = substr(row[i], 1, at - 1)
                allowed[folder] = substr(row[i], at + 1) " "
                name = folder
                sub(/^src\//, "", name)
                if (folder != "tools" && folder != "include") layer[name] = folder
            }
            rows = split(known, row, "\n")
            for (i = 1; i <= rows; i++)
                if (split(row[i], word, " ") == 2) owner[word[1]] = word[2]
        }
        {
            folder = $1
            header = substr($3, 2, length($3) - 2)
            if (header in owner) {
                if (owner[header] != folder)
                    print $2 ": <" header "> is known to " owner[header] " alone"
                next
            }
            if (header == "phasor.h") next
            first = header
            sub(/\/.*/, "", first)
            if (!(folder in allowed)) {
                print $2 ": " folder " is no layer: give it a row in tools/layers.sh"
            } else if (header ~ /^\.\.?\//) {
                print $2 ": " $3 " is a relative path: name the folder as src/ has it"
            } else if (index(header, "/") && (first in layer || first == "src" || first == "tests")) {
                if (layer[first] != folder && !index(allowed[folder], " " first " "))
                    print $2 ": " folder " must not include " $3 " (may:" allowed[folder] ")"
            } else if ($3 ~ /^"/ && folder !~ /^tools\//) {
                print $2 ": " $3 " has no folder: name it as src/ has it"
            }
        }')
    [ -z "$found" ] || problem "$found"
}

# Outside of comments, in which examples may be named after anything.
rotary_check() {
    local found
    found=$(sources src templates | xargs awk '
        FNR == 1 { inside = 0 }
        {
            line = $0
            while (1) {
                if (inside) {
                    end = index(line, "*/")
                    if (!end) { line = ""; break }
                    line = substr(line, end + 2)
                    inside = 0
                }
                sub(/\/\/.*/, "", line)
                start = index(line, "/*")
                if (!start) break
                rest = substr(line, start + 2)
                end = index(rest, "*/")
                line = substr(line, 1, start - 1) (end ? substr(rest, end + 2) : "")
                inside = !end
            }
            if (tolower(line) ~ /rotary|(^|[^a-z])rope([^a-z]|$)/)
                print FILENAME ":" FNR ": knows what a rotary embedding is"
        }')
    [ -z "$found" ] || problem "$found"
}

# strtod and printf follow the host's locale and rounding, isalpha and the like its locale.
host_check() {
    local found
    found=$(sources src cache | grep -v '^src/base/number\.[ch]$' |
        xargs grep -nE '\b(strto(d|f|ld)|atof|setlocale|is(alpha|alnum|space|punct|print|upper|lower)|to(upper|lower))\(|"[^"]*%[-+#0]*[0-9]*(\.([0-9]+|\*))?L?[eEgGaA]([^a-zA-Z0-9_(]|$)|"[^"]*%[0-9]*\.[0-9*]+f' |
        grep -vE 'number_format\(' | grep -v '\.def:' |
        sed -E 's/^([^:]+:[0-9]+):.*/\1: depends on the locale of the host: base\/number.h or base\/text.h does not/' || true)
    [ -z "$found" ] || problem "$found"
}

size_check() {
    local count file wide long=""
    sources src cache include templates tools tests | grep -v '\.def$' >"$list"
    while read -r count file; do
        [ "$count" -le 600 ] || long+=" $file:$count"
        [ "$count" -le "$lines" ] || problem "$file: $count lines, the limit is $lines"
    done < <(xargs wc -l <"$list" | grep -v ' total$')
    wide=$(xargs grep -nE "^.{$((columns + 1))}" <"$list" |
        sed -E "s/^([^:]+:[0-9]+):.*/\1: wider than $columns columns/" || true)
    [ -z "$wide" ] || problem "$wide"
    printf 'over 600 lines:%s\n' "${long:- none}"
    printf 'over 100 columns: %s lines\n' \
        "$({ xargs grep -hE '^.{101}' <"$list" || true; } | wc -l)"
}

includes_check
rotary_check
host_check
size_check
exit $failed
