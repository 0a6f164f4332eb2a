#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The test run: stages, each with its name and time, up to the first that fails. Once the library is built, two rows of stages
# run side by side. What a stage says goes to build/check/STAGE.log and is shown when it fails. In the end the runners' own
# summaries are shown once more.
#
# FULL=1 also runs what finds the same kinds of faults a second time: the sanitizers of gcc beside those of clang, arm64 beside
# armel and s390x, the single file compiled at three levels; and clang-tidy reads every file, also those that it found clean before.
# ONLY="STAGE..." runs these alone, after the build, WITHOUT="STAGE..." all but these.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

export JOBS=${JOBS:-$(nproc)} FULL=${FULL:-}
logs=build/check
mkdir -p "$logs"
[ -n "${ONLY:-}" ] || rm -f "$logs"/*.log build/platforms/*.json

# Objects that were compiled before, also in another folder, are taken from ccache. Its key is the text that the compiler reads, and the
# options. Paths within objects are those of the first build, which matters to no test.
export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1

mapfile -t rooms < <(find src -type d)
rooms=("${rooms[@]/#/-I}")

# What the Python tests may rely on; ctest sets the same for the unit tests (tests/CMakeLists.txt).
export COFFER_SOURCE_DIR=$PWD
export COFFER_VECTORS=$PWD/tests/vectors
export COFFER_LIB=$PWD/build/check-gcc/libcoffer.so
export COFFER_CLI=$PWD/build/check-gcc/coffer

# ---- The stages -------------------------------------------------------------------------------------------------------

stage_structure() {
    python3 tools/check/check_structure.py --self-test
    python3 tools/check/check_structure.py --build build/check-gcc
}

# The C files that git knows or would add, below the folders named.
c_files() { # c_files "PATTERN" FOLDER...
    local pattern=$1
    shift
    git ls-files --cached --others --exclude-standard -- "$@" | grep -E "$pattern" | while read -r file; do
        [ ! -f "$file" ] || echo "$file"
    done
}

stage_format() {
    c_files '\.([ch]|[ch]pp)$' . | xargs clang-format --dry-run -Werror
}

stage_clang_tidy() {
    cmake --preset check-clang-asan >/dev/null
    local tidy=(xargs tools/check/tidy.py -p build/check-clang-asan)
    # Without tools/check/analysis.h: error.c, which defines what that redefines, and src/os, which chooses the system's
    # features before it includes anything. It returns errno, and the analyser believes that it may be 0 after a failure.
    # Nowhere the files of Windows, which is not this system, nor cli_no_sandbox.c, which this system does without.
    local elsewhere='/(os|cli)_(\w+_)?windows(_\w+)?\.c$|/cli_no_sandbox\.c$' apart
    mapfile -t apart < <(c_files '\.c$' src | grep -E '^src/(core/error|os/(\w+/)?os_\w+)\.c$' | grep -vE "$elsewhere")
    c_files '\.c$' src | grep -vE "$elsewhere" | grep -vxF "$(printf '%s\n' "${apart[@]}")" |
        "${tidy[@]}" --extra-arg=-include --extra-arg="$PWD/tools/check/analysis.h"
    c_files '\.c$' "${apart[@]}" cli | grep -vE "$elsewhere" | "${tidy[@]}" --checks=-clang-analyzer-core.UndefinedBinaryOperatorResult
    # The shim of WebAssembly, for its own machine.
    local shim
    mapfile -t shim < <(bindings/js/wasm/build.sh --options)
    c_files '\.c$' bindings/js/wasm | xargs -P "$JOBS" -I{} clang-tidy --quiet {} -- "${shim[@]}"
}

stage_cppcheck() {
    # The headers of the system are not given, on purpose: cppcheck knows libc and POSIX by its own tables. Left out:
    #   uninitvar                   it takes an address that is handed on for a read; clang-tidy and gcc look for the same
    #   duplicateAssignExpression   two variables may begin with one value
    #   three in files that map      its tables take mmap for malloc: no descriptor -1, no MAP_FAILED, no unmapping of a part
    local mapping=(--suppress={invalidFunctionArg,memleak,deallocret}:src/os/{posix/os_memory,linux/os_share,posix/os_without_wait}.c)
    cppcheck --quiet --error-exitcode=1 --std=c11 --enable=warning,performance,portability --inline-suppr \
        --library=posix -j "$JOBS" --suppress=missingIncludeSystem --suppress=uninitvar \
        --suppress=duplicateAssignExpression "${mapping[@]}" -Iinclude "${rooms[@]}" src cli bindings/js/wasm
}

stage_install() {
    tests/install/run.sh build/check-gcc
}

stage_amalgamation() {
    tests/install/amalgamation.sh build/check-gcc
}

# Follows the README where nothing was installed.
stage_stranger() {
    as_root python3 tests/install/stranger.py
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    else
        sudo "$@"
    fi
}

stage_debian() {
    tests/install/debian.sh
}

stage_cpp() {
    tests/cpp/run.sh build/check-gcc
}

stage_pytest() {
    .venv/bin/python -m pytest tests/python tests/bintensors -p no:cacheprovider
}

# Random pickles, plain and as the beginning of other files, against Python's own unpicklers. A failure names its seed.
stage_polyglots() {
    "${CC:-cc}" -std=c11 -O1 -Wall -Wextra -Werror -Iinclude tests/attacks/scan_verdicts.c build/check-gcc/libcoffer.a \
        -pthread -ldl -lm -o build/check/scan_verdicts
    python3 tests/attacks/polyglots.py build/check/scan_verdicts --seconds 60
}

# Where stages were left out, so are the rows that they would have recorded.
stage_platforms() {
    python3 tools/check/platforms.py check ${WITHOUT:+--partly}
    python3 tools/check/platforms.py table | tee build/platforms/table.md
}

build_and_test() { # build_and_test PRESET
    tools/build/build.sh "$1"
    tools/check/ctest.sh "$1"
}

# ---- Running them -----------------------------------------------------------------------------------------------------

stage() { # stage NAME COMMAND...
    local name=$1 started=$SECONDS log=$logs/$1.log
    shift
    if [[ " ${WITHOUT:-} " == *" $name "* ]]; then
        printf '%-18sleft out\n' "$name"
        return
    fi
    [[ -z "${ONLY:-}" || " $ONLY " == *" $name "* ]] || return 0
    # In a shell of its own, where -e holds: it does not inside a condition.
    set +e
    (
        set -e
        "$@"
    ) >"$log" 2>&1
    local result=$?
    set -e
    if [ $result -eq 0 ]; then
        printf '%-18sok      %4d s\n' "$name" $((SECONDS - started))
        return
    fi
    printf '%-18sFAILED  %4d s\n' "$name" $((SECONDS - started))
    tail -n 60 "$log"
    echo "make check: the stage $name failed; all it said is in $log; this repeats it alone: ONLY=$name make check" >&2
    exit 1
}

# Two rows of stages at once: one compiles most of the time, and the other waits for a single process most of the time. The first
# failure ends both. Each is a job with a process group of its own, so that all that it has started ends with it.
side_by_side() { # side_by_side ROW ROW
    local result=0 first
    set -m
    "$1" &
    local one=$!
    "$2" &
    local other=$!
    set +m
    trap 'kill -- -$one -$other 2>/dev/null' EXIT
    wait -n -p first "$one" "$other" || result=$?
    [ $result -ne 0 ] || wait $((one + other - first)) || result=$?
    [ $result -eq 0 ] || exit 1
    trap - EXIT
}

# In the everyday run these are left out; see above.
full_stages='gcc-asan arm64'
kind='the everyday run'
[ -z "$FULL" ] || kind='the full run'
run="every test${FULL:+ and every stage}"
[ -n "$FULL" ] || run="every test, but not the stages $full_stages, which FULL=1 adds"
cat <<END
make check installs what is missing (compilers, analysers, emulators, shells and, for the Python package, every framework: up to
7 GB) and then runs $run: about 45 minutes on two processors. make test is the quick run. Logs: $logs/STAGE.log
END
[ -n "$FULL" ] || WITHOUT="${WITHOUT:-} $full_stages"

# First, and not as a stage: it may ask for a password, and it is the one part that uses the network.
tools/build/setup.sh --install check

compiling() {
    stage ctest tools/check/ctest.sh check-gcc
    stage clang-asan build_and_test check-clang-asan
    stage clang-tidy stage_clang_tidy
    stage gcc-asan build_and_test check-gcc-asan
    stage tsan build_and_test tsan
    stage s390x tools/check/cross.sh s390x
    stage armel tools/check/cross.sh armel
    stage arm64 tools/check/cross.sh arm64
    stage ports tools/check/ports.sh
    stage windows tools/check/ports.sh windows
    stage platforms stage_platforms
}

using() {
    stage structure stage_structure
    stage format stage_format
    stage cppcheck stage_cppcheck
    stage install stage_install
    stage amalgamation stage_amalgamation
    stage recipes tests/install/recipes.sh
    stage debian stage_debian
    stage stranger stage_stranger
    stage cpp stage_cpp
    stage pytest stage_pytest
    stage polyglots stage_polyglots
    stage python-package tools/check/python_package.sh
    stage frameworks bindings/python/tests/run_frameworks.sh frameworks
    stage clients bindings/python/tests/run_frameworks.sh clients
    stage engines bindings/python/tests/run_engines.sh
    stage js tools/build/js.sh check
    stage web tools/build/web.sh check
}

ONLY='' stage gcc-build tools/build/build.sh check-gcc
side_by_side compiling using

# A runner's closing lines, of the stages that ran.
summary() { # summary PATTERN STAGE...
    local pattern=$1 stage
    shift
    for stage in "$@"; do
        [ ! -f "$logs/$stage.log" ] || grep -hE "$pattern" "$logs/$stage.log" || true
    done
}

echo
echo "make check: ${ONLY:-every stage} passed in $SECONDS s ($kind)"
summary '^[0-9]+% tests passed|^Total Test time' ctest
summary '^(=+ )?[0-9]+ passed' pytest polyglots
summary '^=+ .* passed' python-package
summary '^[0-9]+ passed' frameworks clients engines
summary '^# (tests|pass|skipped) ' js web
