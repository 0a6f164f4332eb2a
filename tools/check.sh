#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The whole test run: stages, each with its name and time, up to the first that fails. Once the library is built, two rows of stages
# run side by side. What a stage says goes to build/check/STAGE.log and is shown when it fails.
# WITHOUT="STAGE..." leaves stages out, such as ports, which is long. In the end the runners' own summaries are shown once more.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

export JOBS=${JOBS:-$(nproc)}
logs=build/check
mkdir -p "$logs"
rm -f "$logs"/*.log build/platforms/*.json

rooms=(src/*/)
rooms=("${rooms[@]/#/-I}")

# What the Python tests may rely on; ctest sets the same for the unit tests (tests/CMakeLists.txt).
export COFFER_SOURCE_DIR=$PWD
export COFFER_VECTORS=$PWD/tests/vectors
export COFFER_LIB=$PWD/build/check-gcc/libcoffer.so
export COFFER_CLI=$PWD/build/check-gcc/coffer

# ---- The stages -------------------------------------------------------------------------------------------------------

stage_structure() {
    python3 tools/check_structure.py --self-test
    python3 tools/check_structure.py --build build/check-gcc
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
    local tidy=(xargs -P "$JOBS" -n 4 clang-tidy --quiet -p build/check-clang-asan)
    # Without tools/analysis.h: error.c, which defines what that redefines, and os_*.c, which choose the system's
    # features before they include anything. They return errno, and the analyser believes that it may be 0 after a failure.
    # Nowhere the files of Windows, which is not this system, nor cli_no_sandbox.c, which this system does without.
    local elsewhere='/(os|cli)_(\w+_)?windows(_\w+)?\.c$|/cli_no_sandbox\.c$' apart
    mapfile -t apart < <(c_files '\.c$' src | grep -E '^src/(core/error|io/os_\w+)\.c$' | grep -vE "$elsewhere")
    c_files '\.c$' src | grep -vE "$elsewhere" | grep -vxF "$(printf '%s\n' "${apart[@]}")" |
        "${tidy[@]}" --extra-arg=-include --extra-arg="$PWD/tools/analysis.h"
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
    local mapping=(--suppress={invalidFunctionArg,memleak,deallocret}:src/io/os_{memory,share,without_wait}.c)
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

# Where stages were left out, so are the rows that they would have recorded.
stage_platforms() {
    python3 tools/platforms.py check ${WITHOUT:+--partly}
    python3 tools/platforms.py table | tee build/platforms/table.md
}

build_and_test() { # build_and_test PRESET
    tools/build.sh "$1"
    tools/ctest.sh "$1"
}

# ---- Running them -----------------------------------------------------------------------------------------------------

stage() { # stage NAME COMMAND...
    local name=$1 started=$SECONDS log=$logs/$1.log
    shift
    if [[ " ${WITHOUT:-} " == *" $name "* ]]; then
        printf '%-18sleft out\n' "$name"
        return
    fi
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
    echo "make check: the stage $name failed; all it said is in $log" >&2
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

cat <<END
make check installs what is missing (compilers, analysers, emulators, shells and, for the Python package, every framework: up to
7 GB) and then runs every test: about an hour on two processors. make test is the quick run. Logs: $logs/STAGE.log
END

# First, and not as a stage: it may ask for a password, and it is the one part that uses the network.
tools/setup.sh check

compiling() {
    stage ctest tools/ctest.sh check-gcc
    stage clang-asan build_and_test check-clang-asan
    stage clang-tidy stage_clang_tidy
    stage gcc-asan build_and_test check-gcc-asan
    stage tsan build_and_test tsan
    stage s390x tools/cross.sh s390x
    stage armel tools/cross.sh armel
    stage arm64 tools/cross.sh arm64
    stage ports tools/ports.sh
    stage windows tools/ports.sh windows
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
    stage python-package tools/python_package.sh
    stage frameworks bindings/python/tests/run_frameworks.sh frameworks
    stage clients bindings/python/tests/run_frameworks.sh clients
    stage engines bindings/python/tests/run_engines.sh
    stage js tools/js.sh check
    stage web tools/web.sh check
}

stage gcc-build tools/build.sh check-gcc
side_by_side compiling using

echo
echo "make check: every stage passed in $SECONDS s"
sed -n '/tests passed/,$p' "$logs/ctest.log"
tail -n 1 "$logs/pytest.log"
grep -E '^=+ .* passed' "$logs/python-package.log"
grep -hE '^[0-9]+ passed' "$logs"/{frameworks,clients,engines}.log
grep -hE '^# (tests|pass|skipped) ' "$logs"/{js,web}.log
