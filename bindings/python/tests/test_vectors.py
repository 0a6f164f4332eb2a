# SPDX-License-Identifier: Apache-2.0
"""The vectors that every language's binding runs: each file's name says what must happen, and at which byte."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

import coffer
from coffer._native import Model

VECTORS = sorted(
    file for file in Path(os.environ["COFFER_VECTORS"]).iterdir() if file.suffix in (".safetensors", ".bin")
)
NAME = re.compile(r"(ok|note|err)(?:_([A-Z0-9_]+)_at(\d+))?__\w+")


@pytest.mark.parametrize("from_memory", [False, True])
def test_every_vector_gets_its_verdict(from_memory):
    verdicts = {"ok": 0, "note": 0, "err": 0}
    for file in VECTORS:
        verdict, what, at = NAME.fullmatch(file.stem).groups()
        verdicts[verdict] += 1
        source = file.read_bytes() if from_memory else file
        unknown = what == "UNKNOWN_DTYPE"
        if verdict == "err":
            with pytest.raises(coffer.Error) as caught:
                Model.open(source, formats="own")
            assert (caught.value.code, caught.value.offset) == (what, int(at)), file.name
            continue
        model = Model.open(source, all_notes=True, unknown_dtypes=unknown, formats="own")
        assert [offset for _, _, offset, _, _ in model.notes()] == ([int(at)] if verdict == "note" else []), file.name
        content = file.read_bytes()
        for tensor in model.tensors():
            assert tensor.tobytes() == content[tensor.offset : tensor.offset + tensor.nbytes], file.name
    assert min(verdicts.values()) > 5, verdicts
