#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs the tests of a preset that was built, but those that tests/left_out.txt names for it; the options are ctest's. A run of all
# of them is recorded for the table of platforms.
#
#   tools/check/ctest.sh PRESET [OPTION...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

preset=$1
shift
# An allocation that is too large is answered with NULL, as malloc answers it: the library must cope.
export ASAN_OPTIONS=${ASAN_OPTIONS:-allocator_may_return_null=1:detect_stack_use_after_return=1:strict_string_checks=1}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
export TSAN_OPTIONS=${TSAN_OPTIONS:-allocator_may_return_null=1:halt_on_error=1}

run=()
if [[ $preset == *tsan* ]] && setarch -R true 2>/dev/null; then
    # Older ThreadSanitizers cannot live with the randomness of addresses that newer kernels have.
    run=(setarch -R)
fi
# CTest's report keeps all that a test said, as its last line has the number of its cases.
"${run[@]}" ctest --test-dir "build/$preset" --output-on-failure --no-tests=error --parallel "${JOBS:-$(nproc)}" \
    --exclude-regex "^($(python3 tools/check/platforms.py left-out "$preset"))\$" --output-junit tests.xml --test-output-size-passed 1048576 "$@"
[ $# -gt 0 ] || python3 tools/check/platforms.py record "$preset"
