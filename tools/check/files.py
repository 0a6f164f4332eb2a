#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What each file of the C code is for: the first sentence of the comment that it opens with.

    tools/check/files.py              of all rooms
    tools/check/files.py src/load     of one, with the folders below it
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def purpose(path: Path) -> str:
    """The first sentence of the head comment, after the line of the licence; of a .c without one that of its header."""
    text = path.read_text(encoding="utf-8").partition("\n")[2]
    comment = re.match(r"/\*(.*?)\*/", text, re.S)
    if comment is None:
        header = path.with_suffix(".h")
        return purpose(header) if path.suffix == ".c" and header.is_file() else ""
    lines = [re.sub(r"^ \* ?", "", line).strip() for line in comment[1].strip("*\n ").split("\n")]
    words = " ".join(lines[: lines.index("")] if "" in lines else lines)
    return re.split(r"(?<=\.) ", " ".join(words.split()) + " ", maxsplit=1)[0].strip()


def main() -> int:
    folders = [ROOT / name for name in sys.argv[1:]] or [ROOT / "src", ROOT / "cli"]
    paths = sorted(path for folder in folders for path in folder.rglob("*.[ch]"))
    for path in paths:
        print(f"{path.relative_to(ROOT)}: {purpose(path)}")
    return 0 if paths else 1


if __name__ == "__main__":
    sys.exit(main())
