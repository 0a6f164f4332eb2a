#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs every benchmark: the programs of bench/, as they were built in build/release, and the scripts of bench/*.sh, which are
# given that folder as their argument.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

shopt -s nullglob
for program in build/release/bench/bench_*; do
    if [ -f "$program" ] && [ -x "$program" ]; then
        echo "== $(basename "$program")"
        "$program"
    fi
done
for script in bench/*.sh; do
    echo "== $(basename "$script")"
    bash "$script" build/release
done
