#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Compiles the library and the command for other systems, in build/port-SYSTEM, where a warning is an error, and runs the unit
# tests of those whose programs run here. Says what it did. docs/platforms.md tells what that means for each system.
#
#   tools/ports.sh [PORT...]    PORT: glibc-2.17, musl, macos-arm64, macos-x86-64, freebsd, windows; all when none is given
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

ports=("$@")
[ ${#ports[@]} -gt 0 ] || ports=(glibc-2.17 musl macos-arm64 macos-x86-64 freebsd windows)

# Zig has a cache of its own, and is no compiler that ccache knows.
unset CMAKE_C_COMPILER_LAUNCHER CMAKE_CXX_COMPILER_LAUNCHER
export ZIG_GLOBAL_CACHE_DIR=$PWD/build/zig-cache

# Tests of what is loaded while a program runs (libcrypto, drivers), which a program without shared libraries cannot do.
left_out_musl='^(test_(cancel|content|device.*|digest|far|import|load|manifest|source_kind|verify)|fuzz_manifest)$'

# What Wine cannot do, or the port does not do yet; docs/platforms.md has the reasons.
left_out_windows='^test_(change|digest|export|far|holes|import|load_plan|manifest|source_kind|verify|writer)$'
export WINEPREFIX=$PWD/build/wine WINEDEBUG=-all

run_tests() { # run_tests PRESET REGEX
    tools/ctest.sh "$1" --exclude-regex "$2"
}

for port in "${ports[@]}"; do
    started=$SECONDS
    tools/build.sh "port-$port"
    touch "build/port-$port/compiled"
    case $port in
    musl) run_tests port-musl "$left_out_musl" ;;
    windows) run_tests port-windows "$left_out_windows" ;;
    esac
    echo "port $port: done in $((SECONDS - started)) s"
done
