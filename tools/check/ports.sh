#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Compiles the library, the command and the examples for other systems, in build/port-SYSTEM, where a warning is an error. What runs
# here is tested: the unit tests with musl, and its command without shared libraries; what is built for Windows, by Wine, which is a
# stage of its own in the test run. What was done is recorded for the table in tests/platforms.md.
#
#   tools/check/ports.sh [PORT...]    PORT: glibc-2.17, musl, musl-static, macos-arm64, macos-x86-64, freebsd, windows-zig; all when none is given; or windows
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

ports=("$@")
[ ${#ports[@]} -gt 0 ] || ports=(glibc-2.17 musl musl-static macos-arm64 macos-x86-64 freebsd windows-zig)

# Zig has a cache of its own, and is no compiler that ccache knows.
unset CMAKE_C_COMPILER_LAUNCHER CMAKE_CXX_COMPILER_LAUNCHER
export ZIG_GLOBAL_CACHE_DIR=$PWD/build/zig-cache

# The vectors get the verdicts in their names; what is only noted is not asked for.
try_command() { # try_command COMMAND
    local vector
    "$1" check tests/vectors/ok_*.safetensors >/dev/null
    for vector in tests/vectors/err_*.safetensors; do
        if "$1" check "$vector" >/dev/null 2>&1; then
            echo "$1 check $vector: no error" >&2
            exit 1
        fi
    done
}

for port in "${ports[@]}"; do
    started=$SECONDS
    tools/build/build.sh "port-$port"
    case $port in
    musl) tools/check/ctest.sh port-musl ;;
    windows)
        tools/check/ctest.sh port-windows
        tools/check/windows.sh
        ;;
    musl-static) try_command build/port-musl-static/coffer ;;&
    *) python3 tools/check/platforms.py record "port-$port" ;;
    esac
    echo "port $port: done in $((SECONDS - started)) s"
done
