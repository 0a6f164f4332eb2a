#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds the Python package, wheel and sdist, looks at both, and runs its tests on what was installed: once as it is, once with
# the extension under ASan and UBSan. Installs it for users and for those who work on it, and runs the command that comes with it.
# Uses no network: tools/build/setup.sh made build/python-venv and build/frameworks-venv.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

root=$PWD
package=$root/bindings/python
out=$root/build/python
venv=$root/build/python-venv
export PATH=$venv/bin:$PATH PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INDEX=1
export COFFER_SOURCE_DIR=$root COFFER_VECTORS=$root/tests/vectors

say() {
    printf '\n== %s\n' "$1"
}

# The wheel is built from the sdist, unpacked where the rest of the repository is not.
build_both() {
    rm -rf "$out"
    mkdir -p "$out"
    python -m build --no-isolation --outdir "$out/dist" "$package"
}

audit_wheel() {
    abi3audit --strict --summary "$out"/dist/*.whl
    auditwheel show "$out"/dist/*.whl
}

# With the frameworks that its modules speak of. Then programs that use it: the documentation's examples, and what else is written
# there.
check_types() {
    python "$package/tests/typed_examples.py" "$out/typed"
    cp "$package/tests/typed_calls.py" "$out/typed"
    (
        cd "$package"
        local frameworks=$root/build/frameworks-venv/bin/python files
        for files in coffer "$out/typed"; do
            MYPYPATH=$package mypy --config-file pyproject.toml --python-executable "$frameworks" "$files"
            pyright --level error --pythonpath "$frameworks" "$files"
        done
    )
}

run_tests() { # run_tests FOLDER: of what is installed there
    (
        cd "$package/tests"
        PYTHONPATH=$1 python -m pytest -p no:cacheprovider -c "$package/pyproject.toml" --rootdir "$package" test_*.py
    )
}

test_wheel() {
    python -m pip install --quiet --no-deps --target "$out/installed" "$out"/dist/*.whl
    run_tests "$out/installed"
}

# Installed as users do it, and as those who work on it: then files lie elsewhere than with --target, the command's too. Where they
# lie is all that differs, so what the latter get is not optimised.
test_command() {
    local kind
    (
        cd "$package"
        PYTHONPATH=build_backend python -c 'import backend, sys; backend.build_editable(sys.argv[1], {"cmake.build-type": "Debug"})' "$out/editable"
    )
    for kind in dist editable; do
        python -m venv --without-pip "$out/venv-$kind"
        python -m pip --python "$out/venv-$kind/bin/python" install --quiet --no-deps "$out/$kind"/*.whl
        cmp <("$out/venv-$kind/bin/coffer" help) <("$out/venv-$kind/bin/python" -m coffer help)
        "$out/venv-$kind/bin/python" -c 'import coffer; print(coffer.__version__)'
    done
}

test_sanitized() {
    local flags='-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -O1'
    CFLAGS=$flags python -m pip install --quiet --no-build-isolation --no-deps --target "$out/sanitized" \
        --config-settings=cmake.build-type=Debug --config-settings=cmake.define.CMAKE_C_FLAGS_DEBUG=-g1 \
        --config-settings=install.strip=false "$package"
    # The interpreter and its packages were built without: what they leak at the end is not looked at.
    LD_PRELOAD=$(gcc -print-file-name=libasan.so) ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 \
        run_tests "$out/sanitized"
}

for step in build_both audit_wheel check_types test_wheel test_command test_sanitized; do
    say "$step"
    $step
done
