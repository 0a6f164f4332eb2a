# SPDX-License-Identifier: Apache-2.0
"""The vectors against the reference implementation: it agrees with every verdict, but for the documented deviations."""

import re
import subprocess
import sys

import coffer_ctypes
import pytest
import reference
import safetensors

DTYPE_IS_UNKNOWN = "note_UNKNOWN_DTYPE"  # accepted on request only


def stated(path):
    """What a vector's name says: its code, or its note, and the byte."""
    found = re.fullmatch(r"(ok|note|err)(?:_([A-Z0-9_]+)_at(\d+))?__\w+\.(?:safetensors|bin)", path.name)
    assert found, path.name
    word, what, at = found.groups()
    return word, what, None if at is None else int(at)


def test_the_directory_is_what_its_generator_writes(vectors):
    generator = vectors[0].parent / "make_vectors.py"
    subprocess.run([sys.executable, generator, "--check"], check=True)


def test_ours_gives_the_verdict_of_the_name(vectors):
    for path in vectors:
        word, what, at = stated(path)
        content = path.read_bytes()
        if not content:
            continue  # without a size there is nothing that coffer_parse could say; test_vectors.c opens it
        verdict = coffer_ctypes.parse(content, all_notes=True, unknown_dtypes=what == "UNKNOWN_DTYPE")
        if word == "err":
            assert (verdict.code, verdict.offset) == (what, at), path.name
        else:
            assert verdict.code == "OK", (path.name, verdict.message)
            assert verdict.notes == ({what: at} if word == "note" else {}), path.name


def test_the_reference_agrees(vectors):
    seen = set()
    for path in vectors:
        content = path.read_bytes()
        theirs = reference.deserialize(content)
        if path.name.startswith(("ok_", "note_")) and not path.name.startswith(DTYPE_IS_UNKNOWN):
            ours = coffer_ctypes.parse(content)
            assert theirs is not None, path.name
            assert theirs == {t.name: (t.dtype, t.shape, content[t.offset : t.offset + t.size]) for t in ours.tensors}
        elif theirs is not None:
            found = reference.deviation(content, coffer_ctypes.parse(content))
            assert found is not None, path.name
            seen.add(found)
    assert seen == reference.documented_deviations()


@pytest.mark.parametrize("backend", ["mmap", "pread"])
def test_the_reference_agrees_on_files(vectors, backend):
    for path in vectors:
        try:
            with safetensors.safe_open(path, "np", backend=backend) as model:
                theirs = {name: model.get_slice(name) for name in model.keys()}
                theirs = {name: (part.get_dtype(), part.get_shape()) for name, part in theirs.items()}
                metadata = model.metadata() or {}
        except (safetensors.SafetensorError, OSError):
            theirs = None
        if theirs is not None and not path.name.startswith("err_"):
            ours, data = coffer_ctypes.open_and_read(path)
            assert theirs == {t.name: (t.dtype, t.shape) for t in ours.tensors}, path.name
            assert metadata == ours.metadata, path.name
            content = path.read_bytes()
            assert data == {t.name: content[t.offset : t.offset + t.size] for t in ours.tensors}, path.name
        elif theirs is not None:
            content = path.read_bytes()
            assert reference.deviation(content, coffer_ctypes.parse(content)) is not None, path.name
        else:
            assert path.name.startswith(("err_", DTYPE_IS_UNKNOWN)), path.name
