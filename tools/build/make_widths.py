#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the table of cli/base/cli_width.c between its two marks: which characters take no column of a terminal, or two.

    tools/build/make_widths.py cli/base/cli_width.c

By the Unicode data of the Python that runs it: East Asian Width W and F are two columns; marks that combine, formats, and
the vowels and ends of Hangul syllables are none.
"""

import sys
import unicodedata
from pathlib import Path

BEGIN, END = "/* begin of the table */\n", "/* end of the table */\n"


def width(code):
    char = chr(code)
    if unicodedata.category(char) in ("Mn", "Me", "Cf") and code != 0xAD or 0x1160 <= code <= 0x11FF:
        return 0
    if unicodedata.category(char) == "Cn":  # Python calls all that is unassigned wide
        return 2 if 0x20000 <= code <= 0x3FFFD else 1
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def ranges():
    """(first, last, width) of every run of characters that are not one column wide."""
    first = None
    for code in range(0x300, 0x110001):
        now = 1 if code == 0x110000 or 0xD800 <= code <= 0xDFFF else width(code)
        if first is not None and now != wide:
            yield first, code - 1, wide
            first = None
        if first is None and now != 1:
            first, wide = code, now


def main():
    path = Path(sys.argv[1])
    text = path.read_text(encoding="utf-8")
    rows = [f"{{ 0x{first:X}, 0x{last:X}, {wide} }}," for first, last, wide in ranges()]
    rows = ["    " + " ".join(rows[i:i + 5]) + "\n" for i in range(0, len(rows), 5)]
    head, rest = text.split(BEGIN)
    tail = rest.split(END)[1]
    note = f"/* Unicode {unicodedata.unidata_version}. */\n"
    table = "static const width_range width_ranges[] = {\n" + "".join(rows) + "};\n"
    path.write_text(head + BEGIN + note + "/* clang-format off */\n" + table + "/* clang-format on */\n" + END + tail,
                    encoding="utf-8")


main()
