#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Configures and builds a preset, in build/PRESET.
#
#   tools/build/build.sh PRESET
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

preset=$1
cmake --preset "$preset" >/dev/null
# The build runs a program that it has built; see tools/check/ctest.sh for what older ThreadSanitizers need for that.
run=()
if [[ $preset == *tsan* ]] && setarch -R true 2>/dev/null; then
    run=(setarch -R)
fi
"${run[@]}" cmake --build "build/$preset" --parallel "${JOBS:-$(nproc)}"
