#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs the unit tests of build/coverage and reports which lines and branches of src and cli they reach.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

folder=build/coverage
branches=(--rc lcov_branch_coverage=1)
lcov --quiet --zerocounters --directory "$folder"
tools/ctest.sh coverage
lcov --quiet "${branches[@]}" --capture --directory "$folder" --output-file "$folder/all.info"
lcov --quiet "${branches[@]}" --extract "$folder/all.info" "$PWD/src/*" "$PWD/cli/*" --output-file "$folder/coffer.info"
genhtml --quiet --branch-coverage --prefix "$PWD" --output-directory "$folder/html" "$folder/coffer.info"
lcov "${branches[@]}" --list "$folder/coffer.info"
echo "Every line: $folder/html/index.html"
