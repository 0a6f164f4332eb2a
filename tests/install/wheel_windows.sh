#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs the Python package for Windows beside a Python for Windows, which tools/build/setup.sh makes, and runs its tests by Wine, but
# those that tests/windows/python.txt names.
#
#   tests/install/wheel_windows.sh WHEEL
set -euo pipefail

wheel=$(realpath "$1")
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. tests/install/python_tests.sh
tools/build/setup.sh --install windows-python
root=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

there() { # there PATH: as Windows' programs call it
    echo "Z:${1//\//\\}"
}

# Wine cannot say which file the input or output of a program is, which Python asks: so neither is a file.
python() {
    tools/check/wine.sh build/windows-python/python.exe "$@" </dev/null 2>&1 | cat
}

build/python-venv/bin/python -m pip install --quiet --disable-pip-version-check --no-index --no-deps --only-binary=:all: \
    --python-version 3.11 --platform win_amd64 --target "$work/installed" "$wheel"
PYTHONPATH="$(there "$work/installed");$(there "$root/build/windows-python/packages")"
export PYTHONPATH PYTHONDONTWRITEBYTECODE=1 PYTHONUTF8=1
export COFFER_SOURCE_DIR=$(there "$root") COFFER_VECTORS=$(there "$root/tests/vectors")
python -c 'import coffer, sys; print(f"coffer {coffer.__version__}, Python {sys.version}")'
python -m coffer check tests/vectors/ok_*.safetensors >/dev/null
if python -m coffer check tests/vectors/err_*.safetensors >/dev/null; then
    echo 'python -m coffer check: no error in broken vectors' >&2
    exit 1
fi
run_tests python tests/windows/python.txt "$(there "$work/tmp")"
