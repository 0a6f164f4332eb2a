#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs the Python package as its users do, by pip, in the root of another Linux, which tools/build/setup.sh makes, with neither a
# compiler nor a network, and runs its tests there, but those that tests/LINUX/python.txt names.
#
#   tests/install/wheel_chroot.sh LINUX WHEEL    LINUX: musl, or bullseye, whose glibc is 2.31
set -euo pipefail

linux=$1
wheel=$(realpath "$2")
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. tests/install/python_tests.sh
tools/build/setup.sh --install "$linux-python"
system=$PWD/build/$linux-python/system
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$wheel" "$work"

apart=(unshare --mount --net)
[ "$(id -u)" -eq 0 ] || apart+=(--map-root-user)

# The checkout is there as /coffer, and of the network only what is the machine's own.
in_root() { # in_root COMMAND...
    "${apart[@]}" bash -euc '
        for folder in dev proc sys; do
            mount --rbind "/$folder" "$0/$folder"
        done
        mount --bind "$1" "$0/tmp"
        mount --bind . "$0/coffer"
        shift
        exec unshare --root="$0" --wd=/coffer busybox sh -c "busybox ip link set lo up && exec \"\$@\"" sh "$@"
    ' "$system" "$work" "$@"
}

python() {
    in_root /tmp/venv/bin/python "$@"
}

export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp PYTHONDONTWRITEBYTECODE=1 TMPDIR=/tmp
export COFFER_SOURCE_DIR=/coffer COFFER_VECTORS=/coffer/tests/vectors
in_root /opt/python/bin/python3 -m venv /tmp/venv
python -m pip install --quiet --disable-pip-version-check --no-index "/tmp/$(basename "$wheel")"
# The command loads libraries when it needs them, here for SHA-256.
in_root /tmp/venv/bin/coffer hash /coffer/tests/vectors/ok__c64_aligned_to_4.safetensors
export PYTHONPATH=/coffer/build/$linux-python/packages LD_LIBRARY_PATH=/usr/lib/x86_64-linux-gnu/openblas-pthread
python -c 'import coffer, packaging.tags as tags; print(f"coffer {coffer.__version__} on", [*tags.platform_tags()][1])'
run_tests python "tests/$linux/python.txt" /tmp/tests
