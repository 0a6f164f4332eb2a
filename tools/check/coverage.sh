#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs the unit tests of build/coverage, the vectors among them, and reports which lines and branches of src they reach: of each
# file, and of src/core and src/format together. Fails when they are below what the house wants. Nothing is left out of the count: no file, and
# no line by a marker.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

least_lines=100
least_branches=95

folder=build/coverage
branches=(--rc lcov_branch_coverage=1)

if grep -rnE '(LCOV|GCOVR?)_EXCL' src; then
    echo "coverage: a marker leaves lines out of the count" >&2
    exit 1
fi

# Some releases of lcov warn of themselves.
quietly() { # quietly COMMAND...
    "$@" 2> >(grep -v '^Subroutine .* redefined' >&2)
}

lcov --quiet --zerocounters --directory "$folder"
# What no unit test calls counts, too: with nothing reached.
quietly lcov --quiet "${branches[@]}" --capture --initial --directory "$folder" --output-file "$folder/none.info"
# The fuzz targets' replays are no unit tests.
if ! tools/check/ctest.sh coverage --tests-regex '^test_' >"$folder/ctest.log" 2>&1; then
    cat "$folder/ctest.log"
    exit 1
fi
quietly lcov --quiet "${branches[@]}" --capture --directory "$folder" --output-file "$folder/reached.info"
quietly lcov --quiet "${branches[@]}" --add-tracefile "$folder/none.info" --add-tracefile "$folder/reached.info" \
    --output-file "$folder/all.info"
lcov --quiet "${branches[@]}" --extract "$folder/all.info" "$PWD/src/*" --output-file "$folder/coffer.info"
genhtml --quiet --branch-coverage --prefix "$PWD" --output-directory "$folder/html" "$folder/coffer.info"
for source in $(find src -name '*.c'); do
    if ! grep -qxF "SF:$PWD/$source" "$folder/coffer.info"; then
        echo "coverage: $source was not counted" >&2
        exit 1
    fi
done

# A file's record names it (SF), counts lines and those reached (LF, LH), branches and those taken (BRF, BRH).
awk -F: -v root="$PWD/" -v least_lines="$least_lines" -v least_branches="$least_branches" '
    function percent(part, whole) { return whole == 0 ? 100 : 100 * part / whole }
    function row(name, lh, lf, bh, bf) {
        printf "%-28s %6.2f %% of %5d lines  %6.2f %% of %5d branches\n", name, percent(lh, lf), lf, percent(bh, bf), bf
    }
    $1 == "SF" { file = substr($2, length(root) + 1); lf = lh = bf = bh = 0 }
    $1 == "LF" { lf = $2 }
    $1 == "LH" { lh = $2 }
    $1 == "BRF" { bf = $2 }
    $1 == "BRH" { bh = $2 }
    $1 == "end_of_record" {
        row(file, lh, lf, bh, bf)
        if (file ~ /^src\/(core|format)\//) { core_lh += lh; core_lf += lf; core_bh += bh; core_bf += bf }
    }
    END {
        row("core and format", core_lh, core_lf, core_bh, core_bf)
        if (core_lf == 0 || percent(core_lh, core_lf) < least_lines || percent(core_bh, core_bf) < least_branches) {
            printf "coverage: src/core and src/format are below %d %% of lines or %d %% of branches\n", least_lines, least_branches
            exit 1
        }
    }' "$folder/coffer.info" && failed=0 || failed=$?
echo "Every line: $folder/html/index.html"
exit "$failed"
