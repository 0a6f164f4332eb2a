#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs every fuzz target of build/fuzz for FUZZ_SECONDS, from the committed corpus and the test vectors on. Inputs that
# reach new code are kept in build/fuzz/found/TARGET, those that fail in build/fuzz/failed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

mkdir -p build/fuzz/failed
python3 tests/attacks/make_attacks.py build/fuzz/attacks
for target in build/fuzz/fuzz/fuzz_*; do
    [ -x "$target" ] && [ -f "$target" ] || continue
    name=$(basename "$target")
    found=build/fuzz/found/$name
    mkdir -p "$found"
    options=(-max_total_time="${FUZZ_SECONDS:-60}" -timeout=10 -print_final_stats=1 -artifact_prefix=build/fuzz/failed/)
    if [ -f "fuzz/$name.dict" ]; then
        options+=(-dict="fuzz/$name.dict")
    fi
    # All readers, so files of all formats, and those that lie.
    more=()
    if [ "$name" = fuzz_convert ]; then
        more=(build/fuzz/attacks)
    fi
    echo "== $name, ${FUZZ_SECONDS:-60} seconds"
    log=build/fuzz/$name.log
    if ! "$target" "${options[@]}" "$found" "fuzz/corpus/$name" tests/vectors "${more[@]}" >"$log" 2>&1; then
        tail -n 60 "$log"
        echo "fuzz: $name failed; all it said is in $log, the input in build/fuzz/failed" >&2
        exit 1
    fi
    sed -n 's/^stat::/   /p' "$log"
done
