# SPDX-License-Identifier: Apache-2.0
"""The table of globals that pickles name: looking a name up relies on its order, and a row that stands twice would be judged by
either."""

import os
import pathlib
import re

SOURCE = pathlib.Path(os.environ.get("COFFER_SOURCE_DIR") or pathlib.Path(__file__).resolve().parents[2])


def rows():
    text = (SOURCE / "src/import/pickle/pickle_names.c").read_text(encoding="utf-8")
    table = text[text.index("known_rows[] = {"):]
    table = re.sub(r"/\*.*?\*/", "", table[:table.index("\n};")], flags=re.S)
    return re.findall(r'\{\s*"((?:\\.|[^"\\])*)",\s*"((?:\\.|[^"\\])*)"', table), table.count("\n    {")


def test_rows_are_in_order_and_stand_once():
    found, count = rows()
    assert len(found) == count > 200
    assert found == sorted(set(found), key=lambda row: (row[0].encode(), row[1].encode()))
