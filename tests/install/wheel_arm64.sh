#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs the Python package for Linux on arm64 beside Debian's Python for that machine, which tools/build/setup.sh unpacks, and runs its
# tests by qemu, but those that tests/arm64/python.txt names.
#
#   tests/install/wheel_arm64.sh WHEEL
set -euo pipefail

wheel=$(realpath "$1")
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. tests/install/python_tests.sh
tools/build/setup.sh --install arm64-python
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Debian's Python starts others as it was started itself: by this, which plays the machine for each.
cat >"$work/python" <<END
#!/bin/sh
export PYTHONHOME=$PWD/build/arm64-python/system/usr
exec qemu-aarch64 -L "$PWD/build/arm64-python/system" -E LD_LIBRARY_PATH=/usr/lib/aarch64-linux-gnu/openblas-pthread -0 "\$0" "\$PYTHONHOME/bin/python3.11" "\$@"
END
chmod +x "$work/python"

build/python-venv/bin/python -m pip install --quiet --disable-pip-version-check --no-index --no-deps --only-binary=:all: \
    --python-version 3.11 --platform manylinux_2_17_aarch64 --target "$work/installed" "$wheel"
export PYTHONPATH=$work/installed:$PWD/build/arm64-python/packages PYTHONDONTWRITEBYTECODE=1
export COFFER_SOURCE_DIR=$PWD COFFER_VECTORS=$PWD/tests/vectors
"$work/python" -c 'import coffer, platform; print(f"coffer {coffer.__version__} on {platform.machine()}")'
run_tests "$work/python" tests/arm64/python.txt "$work/tmp"
