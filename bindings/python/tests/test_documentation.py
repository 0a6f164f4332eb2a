# SPDX-License-Identifier: Apache-2.0
"""The examples of the documentation: what they say comes out does. The blocks of a document are one session, in a folder with
one file in it."""

from __future__ import annotations

import doctest
import os
import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from conftest import array_file

SOURCE = Path(os.environ["COFFER_SOURCE_DIR"])
DOCUMENTS = ["README.md", "docs/bintensors.md", "docs/python.md", "bindings/python/README.md"]


def model() -> bytes:
    arrays = {
        "wte.weight": np.arange(200 * 64, dtype=np.float32).reshape(200, 64) % 1000,
        "bias": np.full(64, 0.5, np.float32),
        "wpe.weight": np.zeros((4, 64), np.float16),
        "ln.weight": np.ones(64, ml_dtypes.bfloat16),
    }
    return array_file(arrays, {"format": "pt"})


@pytest.mark.parametrize("document", DOCUMENTS)
def test_examples(document, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("model.safetensors").write_bytes(model())
    text = (SOURCE / document).read_text(encoding="utf-8")
    blocks = re.findall(r"^```pycon\n(.*?)^```$", text, flags=re.M | re.S)
    assert blocks, "no example"
    session = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, document, document, 0)
    said: list[str] = []
    results = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS).run(session, out=said.append)
    assert results.attempted > 0 and results.failed == 0, "".join(said)
