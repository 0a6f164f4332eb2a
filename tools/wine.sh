#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs a program for Windows by Wine, with a folder for its settings in build/wine and without its messages.
#
#   tools/wine.sh PROGRAM.exe [ARGUMENT...]
set -euo pipefail
build=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/build
mkdir -p "$build"
export WINEPREFIX=$build/wine WINEDEBUG=-all WINEDLLOVERRIDES="mscoree,mshtml=" DISPLAY=
exec /usr/lib/wine/wine64 "$@"
