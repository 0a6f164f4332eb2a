# SPDX-License-Identifier: Apache-2.0
"""The reference implementation's verdict on a file, and which differences from it are on purpose.

The differences are those of the table "Deviations" in docs/format.md, by their ids, and nothing else.
"""

import json
import pathlib
import re

import safetensors

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Of two tensors of one name the reference sees only the last, so the first may break any rule that is checked later.
RULES_OF_ONE_TENSOR = {"OVERFLOW", "PARTIAL_BYTE", "RANGE", "SIZE"}


def documented_deviations():
    """The ids in the first column of the table of docs/format.md."""
    text = (ROOT / "docs" / "format.md").read_text()
    section = text.partition("\n### Deviations\n")[2].partition("\n### ")[0]
    return set(re.findall(r"^\| (D\d+) \|", section, re.M))


def deserialize(content):
    """The tensors of a file as {name: (dtype, shape, bytes)}, or None when the reference refuses it."""
    try:
        tensors = safetensors.deserialize(content)
    except safetensors.SafetensorError:
        return None
    return {name: (info["dtype"], list(info["shape"]), bytes(info["data"])) for name, info in tensors}


class _Duplicates:
    """Finds keys that come twice, with Python's JSON reader."""

    def __init__(self, header):
        self.anywhere = False
        self.root = json.loads(header, object_pairs_hook=self._object, parse_int=str, parse_float=str)

    def _object(self, pairs):
        self.anywhere = self.anywhere or len({key for key, _ in pairs}) < len(pairs)
        return pairs


def _members(pairs):
    """The members of an object; none of what is no object."""
    return pairs if isinstance(pairs, list) and all(isinstance(item, tuple) for item in pairs) else []


def _has_other_forms(root):
    """Whether a tensor is an array, or its dtype an object."""
    for name, value in root:
        if name == "__metadata__":
            continue
        if not all(isinstance(item, tuple) for item in value):
            return True
        if any(key == "dtype" and not isinstance(dtype, str) for key, dtype in _members(value)):
            return True
    return False


def deviation(content, verdict):
    """The id of the deviation for which `verdict` refuses a file that the reference accepts, or None."""
    header_size = int.from_bytes(content[:8], "little")
    seen = _Duplicates(content[8 : 8 + header_size])
    names = [name for name, _ in seen.root]
    if verdict.code in ("DUPLICATE_KEY", "DUPLICATE_NAME") and seen.anywhere:
        return "D1"
    if verdict.code in RULES_OF_ONE_TENSOR and len(set(names)) < len(names):
        return "D1"
    if verdict.code == "TYPE" and content[verdict.offset] in b"[{" and _has_other_forms(seen.root):
        return "D2"
    return None
