#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes one file of the library, for projects that would rather compile it than link it.

    tools/build/amalgamate.py FOLDER    writes FOLDER/coffer.c and FOLDER/coffer.h

coffer.c is every file of src, each header where it is first included, after the headers of the system, which come first:
what follows them is hidden from other libraries, as it is in libcoffer.so. What src includes conditionally keeps its condition.
coffer.h is the public header with the headers of its topics in it.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Lower rooms first, so that the file can be read from top to bottom.
ROOMS = ("core", "format", "codec", "os", "os/none", "os/posix", "os/linux", "os/windows", "io", "net", "hash", "manifest", "transfer",
         "engine", "model", "write", "import", "import/archive", "import/pickle", "import/scan", "import/*", "export", "merge", "doctor", "device",
         "load/plan", "load/schedule", "load/cache", "load/staging", "load/delivery", "load/group", "load/exchange", "load")
# The operating system's files that Windows has others for: CMakeLists.txt chooses between them, which one file cannot.
POSIX = ("posix", "linux")

OPENING = """\
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer.c, version {version}: all of libcoffer in one file, made by tools/build/amalgamate.py from the files named below. Compile it
 * without any option and include coffer.h, which belongs to it:
 *
 *     cc -c coffer.c
 *     cc program.c coffer.o -pthread
 */
"""
HIDE = "\n#if defined(__GNUC__) || defined(__clang__)\n#pragma GCC visibility push(hidden)\n#endif\n"
SHOW = "\n#if defined(__GNUC__) || defined(__clang__)\n#pragma GCC visibility pop\n#endif\n"


class Amalgamation:
    """Collects what goes to the file's top while the sources go by."""

    def __init__(self, root):
        self.headers = {path.name: path for path in root.glob("src/**/*.h")}
        self.seen = set()
        self.features = {}  # macros that choose what headers of others say: before anything else
        self.system = {}  # its headers, each with the conditions that it is under
        self.root = root

    def add(self, path, outer=()):
        """The text of a source or header with its own headers in it; "" for a header that is there already. `outer` are
        the conditions that all of it is under."""
        if path in self.seen:
            return ""
        self.seen.add(path)
        if self.is_posix(path):
            outer = ("#ifndef _WIN32",)
        lines, conditions = [], list(outer)
        for line in self.without_frame(path):
            include = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
            feature = re.match(r"#define (_[A-Z]\w*|XXH_INLINE_ALL|WIN32_LEAN_AND_MEAN|NOMINMAX|NTDDI_VERSION)", line)
            if include and include[1] == "<":
                self.system.setdefault((line.strip(), *conditions))
            elif include:
                lines += [] if include[2] == "coffer.h" else [self.add(self.headers[Path(include[2]).name], outer)]
            elif feature:
                self.features[feature[1]] = line
            else:
                self.follow(line, conditions)
                lines.append(line)
        text = f"\n/* ==== {path.relative_to(self.root)} ==== */\n" + self.tidy("".join(lines))
        return f"\n#ifndef _WIN32\n{text}#endif\n" if self.is_posix(path) else text

    @staticmethod
    def is_posix(path):
        return path.parent.name in POSIX and path.suffix == ".c"

    @staticmethod
    def without_frame(path):
        """The lines of a file without its licence, which the whole file states, and without a header's guard."""
        text = path.read_text(encoding="utf-8").replace("/* SPDX-License-Identifier: Apache-2.0 */\n", "", 1)
        guard = re.search(r"^#ifndef (\w+_H)\n#define \1\n(.*)^#endif\n", text, flags=re.M | re.S)
        if guard:
            text = text[:guard.start()] + guard[2]
        return text.splitlines(keepends=True)

    @staticmethod
    def follow(line, conditions):
        """Keeps account of the conditions that the next line is under."""
        directive = re.match(r"\s*#\s*(if|ifdef|ifndef|else|elif|endif)\b", line)
        if directive and directive[1] == "endif":
            conditions.pop()
        elif directive and directive[1] in ("else", "elif"):
            # Nothing of the kind is in src; a header under one would need its conditions turned around.
            conditions[-1] = None
        elif directive:
            conditions.append(line.strip())

    @staticmethod
    def tidy(text):
        """Without the conditions that nothing is left in, and without rows of empty lines."""
        text = re.sub(r"^#if[^\n]*\n#endif\n", "", text, flags=re.M)
        return re.sub(r"\n{3,}", "\n\n", text)

    def prologue(self):
        lines = [f"#ifndef {name}\n{line}#endif\n" for name, line in sorted(self.features.items())]
        plain = sorted(line for line, *conditions in self.system if not conditions)
        lines += ["\n", *(f"{line}\n" for line in plain), "\n"]
        for line, *conditions in sorted(self.system):
            if None in conditions:
                raise SystemExit(f"amalgamate: {line} is under an #else, which this program does not follow")
            if conditions and line not in plain:
                lines += [f"{condition}\n" for condition in conditions] + [f"{line}\n"] + ["#endif\n"] * len(conditions)
        return "".join(lines) + '\n#include "coffer.h"\n'


def public_header(root):
    """include/coffer.h with each of its topics in the place where it is first included."""
    seen = set()

    def inlined(text, folder):
        return re.sub(r'^#include "([^"]+)"\n', lambda include: topic(folder / include[1]), text, flags=re.M)

    def topic(path):
        if path in seen:
            return ""
        seen.add(path)
        return inlined("".join(Amalgamation.without_frame(path)), path.parent)

    umbrella = root / "include/coffer.h"
    return Amalgamation.tidy(inlined(umbrella.read_text(encoding="utf-8"), umbrella.parent))


def amalgamate(root):
    sources = list(dict.fromkeys(path for room in ROOMS for path in sorted(root.glob(f"src/{room}/*.c"))))
    lost = {path for path in root.glob("src/**/*.c")} - set(sources)
    if lost:
        raise SystemExit(f"amalgamate: a room that this program does not know: {sorted(lost)}")
    header = public_header(root)
    version = re.search(r'COFFER_VERSION_STRING "([^"]+)"', header)[1]
    all_of_it = Amalgamation(root)
    body = "".join(all_of_it.add(path) for path in sources)
    return OPENING.format(version=version) + all_of_it.prologue() + HIDE + body + SHOW, header


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: tools/build/amalgamate.py FOLDER")
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in zip(("coffer.c", "coffer.h"), amalgamate(ROOT)):
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
