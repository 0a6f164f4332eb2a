# SPDX-License-Identifier: Apache-2.0
"""The Rust package's verdict on a file, by its Python binding, and which differences from it are on purpose.

Of an error it is the class that is compared: one of theirs stands for several of ours. The differences are those of the
table "Where Coffer differs" in docs/format.md, by their ids, and nothing else.
"""

import pathlib
import re

import bintensors

ROOT = pathlib.Path(__file__).resolve().parents[2]

CLASSES = {
    "HeaderTooSmall": {"TOO_SHORT"},
    "HeaderTooLarge": {"HEADER_TOO_LARGE"},
    "InvalidHeaderLength": {"HEADER_TRUNCATED"},
    "DecoderError": {"HEADER_ENDS", "TYPE", "NUMBER", "DTYPE", "UTF8", "HEADER_LENGTH"},
    "ValidationMismatch": {"DUPLICATE_NAME"},
    "InvalidOffset": {"HOLE", "OVERLAP", "RANGE"},
    "ValidationOverflow": {"OVERFLOW"},
    "TensorInvalidInfo": {"SIZE"},
    "MetadataIncompleteBuffer": {"DATA_TRUNCATED", "TRAILING_BYTES"},
}


def documented_differences():
    """The ids in the first column of the table."""
    text = (ROOT / "docs" / "format.md").read_text()
    section = text.partition("\n### Where Coffer differs\n")[2].partition("\n### ")[0]
    return set(re.findall(r"^\| (B\d+) \|", section, re.M))


def deserialize(content):
    """({name: (dtype, shape, bytes)}, None) or (None, the name of the error)."""
    try:
        tensors = bintensors.deserialize(content)
    except bintensors.BintensorError as error:
        return None, re.match(r"Error while deserializing: (\w+)", str(error))[1]
    return {name: (info["dtype"], list(info["shape"]), bytes(info["data"])) for name, info in tensors}, None


def open_file(path):
    """(metadata or None, the names in the order of the file) of a file that is right."""
    with bintensors.safe_open(path, "np") as model:
        return model.metadata(), model.offset_keys()


def _metadata_keys(content):
    """The keys of the metadata, which are known to be spelt rightly."""
    at = 8

    def number():
        nonlocal at
        marker = content[at]
        width = {251: 2, 252: 4, 253: 8}.get(marker, 0)
        at += 1 + width
        return int.from_bytes(content[at - width : at], "little") if width else marker

    def string():
        nonlocal at
        length = number()
        at += length
        return content[at - length : at]

    present = number()
    return [(string(), string())[0] for _ in range(number() if present else 0)]


def difference(content, error, verdict):
    """The id of the difference for which `verdict` is another than the package's `error` (None: accepted), or None."""
    if verdict.code == "PADDING":
        return "B1"
    if verdict.code == "DUPLICATE_KEY" and error != "DecoderError":
        keys = _metadata_keys(content)
        return "B2" if len(set(keys)) < len(keys) else None
    if verdict.code in ("OVERFLOW", "RANGE") and error in ("TensorInvalidInfo", "MetadataIncompleteBuffer"):
        return "B4"
    return None
