#!/usr/bin/env bash
# check_install.sh CMAKE GENERATOR BUILD PROGRAM CC - what is installed serves programs outside the tree.
#
#     cmake --install into an empty folder, by --prefix and by DESTDIR
#     ->  the example built by pkg-config, and by find_package(phasor), run PROGRAM;
#         the installed command runs and knows its version; the library exports phasor_* alone
set -euo pipefail

cmake=$1 generator=$2 build=$3 program=$4 compiler=$5
example=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/example/rotate.c
check=$(dirname "${BASH_SOURCE[0]}")/check_example.sh
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

present() { # a file below $folder, by its name
    if [ -z "$(find "$folder" -path "*/$1")" ]; then
        echo "not installed: $1"
        exit 1
    fi
}

by_package_config() { # PREFIX
    local package flags library
    package=$(dirname "$(find "$1" -name phasor.pc)")
    flags=$(PKG_CONFIG_PATH=$package pkg-config --cflags --libs phasor)
    library=$(PKG_CONFIG_PATH=$package pkg-config --variable=libdir phasor)
    # shellcheck disable=SC2086 # flags are words
    "$compiler" -Wall -Werror "$example" $flags -Wl,-rpath,"$library" -o "$folder/by_pkg_config"
    bash "$check" "$folder/by_pkg_config" "$program"
}

by_cmake() { # PREFIX
    mkdir -p "$folder/project"
    cp "$example" "$folder/project"
    cat >"$folder/project/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.25)
project(rotate LANGUAGES C)
find_package(phasor 0.1 REQUIRED)
add_executable(rotate rotate.c)
target_link_libraries(rotate PRIVATE phasor::phasor)
END
    "$cmake" -S "$folder/project" -B "$folder/project/build" -G "$generator" -DCMAKE_C_COMPILER="$compiler" \
        -DCMAKE_PREFIX_PATH="$1" >"$folder/log" || { cat "$folder/log"; exit 1; }
    "$cmake" --build "$folder/project/build" >"$folder/log" || { cat "$folder/log"; exit 1; }
    bash "$check" "$folder/project/build/rotate" "$program"
}

"$cmake" --install "$build" --prefix "$folder/prefix" >"$folder/log"
for file in include/phasor.h libphasor.so libphasor.so.0 bin/phasor pkgconfig/phasor.pc \
    cmake/phasor/phasorConfig.cmake cmake/phasor/phasorConfigVersion.cmake; do
    present "$file"
done
readelf -d "$(find "$folder" -name libphasor.so)" | grep -q 'SONAME.*libphasor\.so\.0\]'
if nm --dynamic --defined-only "$(find "$folder" -name libphasor.so)" | grep -v ' phasor_'; then
    echo "libphasor exports what is not in phasor.h"
    exit 1
fi
[ ! -e "$(dirname "$example")/../../tools/phasor.1" ] || present man1/phasor.1
by_package_config "$folder/prefix"
by_cmake "$folder/prefix"
"$folder/prefix/bin/phasor" --version

rm -rf "$folder/prefix" "$folder/project"
DESTDIR="$folder/stage" "$cmake" --install "$build" >"$folder/log"
by_package_config "$folder/stage"
