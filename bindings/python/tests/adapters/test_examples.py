# SPDX-License-Identifier: Apache-2.0
"""The examples of docs/loading.md, which need frameworks."""

from test_documentation import run_examples


def test_examples(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_examples("docs/loading.md#Engines and frameworks")
