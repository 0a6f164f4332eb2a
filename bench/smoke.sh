#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Sees that a benchmark works: run small, it succeeds, prints rows of eight fields with figures in them, and leaves no file
# behind. What the figures are does not matter here.
#
#   bench/smoke.sh PROGRAM
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

unset COFFER_BENCH_PYTHON
mkdir "$folder/data"
COFFER_BENCH_QUICK=1 COFFER_BENCH_DIR=$folder/data "$1" >"$folder/out"
cat "$folder/out"
awk -F '\t' '
    $1 == "NOTE" { next }
    $1 != "ROW" || NF != 8 || !($4 > 0) || ($5 != "" && (!($6 > 0) || !($7 > 0))) { print "not a row: " $0; bad = 1 }
    { rows++ }
    END { exit bad || rows == 0 }' "$folder/out"
if [ -n "$(ls -A "$folder/data")" ]; then
    echo "left behind: $(ls -A "$folder/data")"
    exit 1
fi
