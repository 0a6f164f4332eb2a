#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Has vLLM and SGLang load small models by themselves and by Coffer, on a CPU, with one process and with two, in build/engines-venv,
# which tools/build/setup.sh makes, on the wheel that tools/check/python_package.sh built. No kernel of theirs is run, and no server.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."

python=$PWD/build/engines-venv/bin/python
"$python" -m pip install --quiet --disable-pip-version-check --no-index --no-deps --force-reinstall build/python/dist/libcoffer-*.whl

cd bindings/python/tests
"$python" -m pytest -q -p no:cacheprovider engines
