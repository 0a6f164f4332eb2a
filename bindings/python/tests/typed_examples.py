# SPDX-License-Identifier: Apache-2.0
"""Writes the documentation's Python into files that type checkers read: one for each document.

    python typed_examples.py FOLDER
"""

from __future__ import annotations

import doctest
import re
import sys
from pathlib import Path

from document_parts import APART, text_of

DOCUMENTS = [
    "README.md",
    "docs/format.md",
    "docs/loading.md",
    "docs/python.md",
    *(f"docs/python.md#{heading}" for heading in APART["docs/python.md"]),
    "bindings/python/README.md",
]


def examples(text: str) -> str:
    """All that a document has, in its order."""
    blocks = re.findall(r"^```(pycon|python)\n(.*?)^```$", text, flags=re.M | re.S)
    return "\n".join(code if kind == "python" else session(code) for kind, code in blocks)


def session(text: str) -> str:
    """What a session at the prompt runs."""
    return "\n".join(example.source for example in doctest.DocTestParser().get_examples(text))


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for document in DOCUMENTS:
        code = examples(text_of(document))
        name = re.sub(r"\W", "_", document.replace(".md", ""))
        (folder / f"example_{name}.py").write_text(f"# The examples of {document}.\n{code}", encoding="utf-8")


if __name__ == "__main__":
    main()
