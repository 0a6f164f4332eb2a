#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Tests and measures loading on a real accelerator, which the test run cannot: its machines have none. Run it on a machine with a
# CUDA device, whose python3 has torch for it, pytest and numpy. The wheel and the reader of the floors are those of the release build,
# and may come from another machine.
#
#   tools/check/device.sh FOLDER [WHEEL [FLOOR]]   FOLDER: where models of COFFER_BENCH_DEVICE_GB (16) gigabytes are made
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

folder=$1
wheel=${2:-$(echo build/python/dist/libcoffer-*.whl)}
floor=${3:-build/release/bench/floor_read}

packages=$folder/packages
mkdir -p "$packages"
python3 -m pip install --quiet --disable-pip-version-check --no-index --no-deps --upgrade --target "$packages" "$wheel"
export PYTHONPATH=$packages${PYTHONPATH:+:$PYTHONPATH}

python3 -m coffer devices
python3 -m pytest -q -p no:cacheprovider bindings/python/tests/devices
python3 bench/bench_device.py "$floor" "$folder"
