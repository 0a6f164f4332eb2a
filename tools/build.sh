#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Configures and builds a preset, in build/PRESET.
#
#   tools/build.sh PRESET
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

preset=$1
cmake --preset "$preset" >/dev/null
cmake --build "build/$preset" --parallel "${JOBS:-$(nproc)}"
