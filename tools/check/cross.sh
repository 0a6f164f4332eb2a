#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Compiles everything for other machines, in build/MACHINE, and runs the unit tests and the fuzz targets' corpora there by qemu.
#
#   tools/check/cross.sh [MACHINE...]    MACHINE: s390x (64 bits, big-endian), armel (32 bits), arm64; all when none is given
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

machines=("$@")
[ ${#machines[@]} -gt 0 ] || machines=(s390x armel arm64)

# Tests that take minutes for a machine that is played take fewer of their cases.
export COFFER_EMULATED=1

for machine in "${machines[@]}"; do
    tools/build/build.sh "$machine"
    tools/check/ctest.sh "$machine"
done
