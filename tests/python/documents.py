# SPDX-License-Identifier: Apache-2.0
"""The blocks of code in documents: where they are, what they say they are, and what a shell's session shows.

Used by test_docs.py and by tests/install/stranger.py.
"""

import re


class Block:
    """A block of code: where its fence is, what it says it is, and its text."""

    def __init__(self, document, line, language, text):
        self.document, self.line, self.language, self.text = document, line, language, text

    def __str__(self):
        return f"{self.document.name}:{self.line}"


def blocks_of(document):
    """The blocks of a document, from top to bottom."""
    found, start, lines = [], None, document.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, 1):
        if start is None and line.lstrip().startswith("```"):
            start = number
        elif start is not None and line.strip() == "```":
            indent = len(lines[start - 1]) - len(lines[start - 1].lstrip())
            text = "".join(part[indent:] + "\n" for part in lines[start:number - 1])
            found.append(Block(document, start, lines[start - 1].strip()[3:].strip(), text))
            start = None
    assert start is None, f"{document.name}:{start}: this block has no end"
    return found


SUFFIXES = {"rust": "rs", "python": "py"}


def file_of(block):
    """The name that the block's first line, a comment, gives to the file that it is; None: it is none."""
    suffix = SUFFIXES.get(block.language, block.language)
    match = re.match(rf"(?:/[/*]|#) (\w+\.{suffix})\b", block.text)
    return match[1] if match else None


def sessions(text):
    """The commands of a block, each with the output that the block shows for it."""
    found = []
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith("$ "):
            command = line[2:]
            while command.endswith("\\"):
                command += "\n" + next(lines)
            found.append((command, []))
        elif found:
            found[-1][1].append(line)
    return [(command, "\n".join(shown).rstrip("\n")) for command, shown in found]


def on_any_machine(said):
    """Without what differs from run to run and from file system to file system."""
    said = said.replace("edited in a clone, which replaced it", "edited in place")
    return re.sub(r"\b\d+(\.\d+)? (ms|s)\b", "TIME", said)
