# SPDX-License-Identifier: Apache-2.0
"""The ABI is what tests/abi records, and a change of it does not pass unnoticed.

tools/check/abi.py compares; here it is run, and then run again on headers with a change planted in them that compiles without a
word: each of them breaks programs that were built before.
"""

import importlib.util
import os
import re
import shutil
from pathlib import Path

import pytest

SOURCE = Path(os.environ.get("COFFER_SOURCE_DIR") or Path(__file__).resolve().parents[2])
BUILD = Path(os.environ["COFFER_LIB"]).parent

specification = importlib.util.spec_from_file_location("abi", SOURCE / "tools/check/abi.py")
abi = importlib.util.module_from_spec(specification)
specification.loader.exec_module(abi)


def test_the_abi_is_the_recorded_one():
    assert list(abi.differences(BUILD)) == []


def test_nothing_public_is_left_out():
    text = abi.declarations()
    assert len(abi.functions(text)) == len(re.findall(r"^COFFER_API\b", text, re.M)) > 60
    assert len(abi.structs(text)) == len(re.findall(r"^typedef struct \w+ \{", text, re.M)) > 10
    assert len(abi.enums(text)) == len(re.findall(r"^typedef enum \w+ \{", text, re.M)) > 5
    assert all(abi.structs(text).values()) and all(abi.enums(text).values())


def test_cpp_has_all_that_can_fail():
    """What fails throws in C++, so coffer.hpp calls it; but for parsing without files, which docs/languages.md leaves to C."""
    code = re.sub(r"/\*.*?\*/", "", (SOURCE / "include/coffer.hpp").read_text(encoding="utf-8"), flags=re.S)
    functions = abi.functions(abi.declarations())
    called = set(re.findall(r"\bcoffer_\w+", code)) & set(functions)
    assert {name for name, line in functions.items() if "coffer_error *err" in line} - called == {"coffer_parse"}


# (what is replaced in the headers, by what, a line that must be reported)
PLANTED = [
    ("    int32_t os_error;", "    int64_t os_error;", "-    4: os_error, 4 bytes"),
    ("    char path[512];", "    char path[768];", "+    424: path, 768 bytes"),
    ("size_t key_len;\n    size_t value_len;\n} coffer_pair;", "size_t value_len;\n    size_t key_len;\n} coffer_pair;",
     "+    16: value_len, 8 bytes"),
    ("COFFER_ERR_MEMORY = 11,", "COFFER_ERR_MEMORY = 19,", "+    COFFER_ERR_MEMORY = 19"),
    ("#define COFFER_DTYPE_COUNT ", "#define COFFER_DTYPE_COUNT 1", "+    COFFER_DTYPE_COUNT = 1"),
    ("coffer_status coffer_read(const coffer *model, const coffer_tensor *tensor, void *buffer,",
     "coffer_status coffer_read(const coffer *model, void *buffer, const coffer_tensor *tensor,",
     "+coffer_status coffer_read(const coffer *model, void *buffer, const coffer_tensor *tensor,"),
    ("COFFER_API void coffer_close(coffer *model);", "", "+coffer_close: not in a public header"),
]


@pytest.mark.parametrize("old, new, reported", PLANTED, ids=lambda text: text.split("(")[0].strip()[:40])
def test_a_change_is_noticed(old, new, reported, tmp_path, monkeypatch):
    shutil.copytree(abi.INCLUDE, tmp_path / "include")
    monkeypatch.setattr(abi, "INCLUDE", tmp_path / "include")
    texts = {path: path.read_text(encoding="utf-8") for path in abi.INCLUDE.glob("coffer/*.h")}
    places = [path for path, text in texts.items() for _ in range(text.count(old))]
    assert len(places) == 1, f"not once in the headers: {old}"
    places[0].write_text(texts[places[0]].replace(old, new), encoding="utf-8")
    assert any(line.startswith(reported) for line in abi.differences(BUILD))
