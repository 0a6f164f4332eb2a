#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints what a release says of itself: the first sentence of each entry of its section of the changelog.

    tools/release/release_notes.py CHANGELOG VERSION [ADDRESS]

The section is that of VERSION, or "Unreleased" where there is none yet. The entries lead to files of the sources, of which nothing
lies beside the notes: with ADDRESS, that of the sources of this version, links lead there; without it they are only named.
"""

import re
import sys
from pathlib import Path


def section(text: str, version: str) -> list[str]:
    """The lines between the section's heading and the next one."""
    parts = re.split(r"^## (.*)$", text, flags=re.MULTILINE)
    by_heading = dict(zip(parts[1::2], parts[2::2], strict=True))
    for heading, body in by_heading.items():
        if re.search(rf"(^|\[){re.escape(version)}(\]| |$)", heading):
            return body.splitlines()
    return by_heading["Unreleased"].splitlines()


def entries(lines: list[str]) -> list[str]:
    """Headings, paragraphs and items, each as one line."""
    joined: list[str] = []
    for line in lines:
        continues = joined and joined[-1] and line.strip() and not line.startswith(("* ", "- ", "#")) and not joined[-1].startswith("#")
        if continues:
            joined[-1] += " " + line.strip()
        else:
            joined.append(line.strip())
    return [line for line in joined if line]


def first_sentence(entry: str) -> str:
    """Up to the first full stop or semicolon that ends a clause, outside of code and of what is in brackets."""
    plain = re.sub(r"`[^`]*`|\[[^\]]*\]|\([^)]*\)", lambda found: "_" * len(found.group()), entry)
    found = re.search(r"\.(?= [A-Z_])|;(?= )", plain)
    return entry[: found.start()] + "." if found else entry


def linked(entry: str, address: str) -> str:
    def link(found: re.Match[str]) -> str:
        words, target = found.groups()
        if "://" in target:
            return found.group()
        return f"[{words}]({address.rstrip('/')}/{target})" if address else words

    return re.sub(r"\[([^\]]*)\]\(([^)]*)\)", link, entry)


def main() -> None:
    path, version, *address = sys.argv[1:]
    lines = []
    for entry in entries(section(Path(path).read_text(encoding="utf-8"), version)):
        short = first_sentence(entry) if entry.startswith(("* ", "- ")) else entry
        if lines and (entry.startswith("#") or lines[-1].startswith("#") or not entry.startswith(("* ", "- "))):
            lines.append("")
        lines.append(linked(short, address[0] if address else ""))
    if not any(line.startswith(("* ", "- ")) for line in lines):
        sys.exit(f"release_notes: {path} says nothing of {version}")
    print("\n".join(lines))
    print("\nAll of it is in CHANGELOG.md, in the sources.")


if __name__ == "__main__":
    main()
