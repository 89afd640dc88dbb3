#!/usr/bin/env bash
# phasor.h is clean in C99 to C17 and in C++11 to C++23, with every warning an error: check_header.sh INCLUDE CC
set -euo pipefail
include=$1 cc=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
printf '#include "phasor.h"\nint main(void) { phasor_value v; v.kind = PHASOR_INT; v.integer = 0; return (int)v.integer; }\n' \
    | tee "$work/use.c" >"$work/use.cpp"
for standard in c99 c11 c17; do
    "$cc" -std=$standard -Wall -Wextra -pedantic -Wconversion -Werror -I"$include" -fsyntax-only "$work/use.c"
done
cxx=$(command -v g++ || command -v clang++) || { echo "no C++ compiler: C alone was tried" && exit 77; }
for standard in c++11 c++14 c++17 c++20 c++23; do
    "$cxx" -std=$standard -Wall -Wextra -pedantic -Wconversion -Werror -I"$include" -fsyntax-only "$work/use.cpp"
done
