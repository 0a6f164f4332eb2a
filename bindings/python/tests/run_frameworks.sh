#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Tests the drop-in with every framework, beside the reference, the ways from tensors to every framework, and real users of
# safetensors on the drop-in.
#
#   bindings/python/tests/run_frameworks.sh frameworks|clients
#
# in build/frameworks-venv, which tools/build/setup.sh makes, on the wheel that tools/check/python_package.sh built. Each file has a process
# of its own, since not every two frameworks live in one.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."

python=$PWD/build/frameworks-venv/bin/python
"$python" -m pip install --quiet --disable-pip-version-check --no-index --no-deps --force-reinstall build/python/dist/libcoffer-*.whl

cd bindings/python/tests
export HF_HUB_OFFLINE=1 JAX_PLATFORMS=cpu TF_CPP_MIN_LOG_LEVEL=3
case ${1:-} in
frameworks)
    for test in {adapters,drop_in,conversions}/test_*.py; do
        "$python" -m pytest -q -p no:cacheprovider "$test"
    done
    ;;
clients)
    for test in clients/test_*.py; do
        "$python" -m coffer.drop_in -m pytest -q -p no:cacheprovider "$test"
    done
    ;;
*)
    echo "usage: run_frameworks.sh frameworks|clients" >&2
    exit 2
    ;;
esac
