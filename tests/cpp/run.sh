#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The C++ header: compiles without a warning by two compilers, as C++17 and as C++20, and passes its tests, under sanitizers
# too. The library comes from a build.
#
#   tests/cpp/run.sh BUILD
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
include=$here/../../include
build=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

strict=(-Wall -Wextra -Wconversion -Wshadow -pedantic -Werror)

try() { # try COMPILER STANDARD OPTION...
    local compiler=$1 standard=$2
    shift 2
    # The header comes first and alone in its file, so it cannot lean on others.
    "$compiler" -std="$standard" -O1 "${strict[@]}" "$@" -I"$include" "$here/test_hpp.cpp" "$build/libcoffer.a" -pthread \
        -o "$work/test_hpp"
    mkdir "$work/folder"
    (cd "$work/folder" && "$work/test_hpp")
    rmdir "$work/folder" # fails when something was left in it
    echo "ok: coffer.hpp, $compiler, $standard $*"
}

for compiler in g++ clang++; do
    for standard in c++17 c++20; do
        try "$compiler" "$standard"
        try "$compiler" "$standard" -fsanitize=address,undefined -fno-sanitize-recover=all
    done
done
