#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs clang-tidy over C files, but not over those that it found clean before.

    tools/check/tidy.py -p BUILD [--checks=CHECKS] [--extra-arg=ARG]... FILE...

BUILD has a compile_commands.json. A file is the same as before when all that clang-tidy looks at is: the file's text after the
preprocessor, comments included, its options, the configuration and the version. What was clean is recorded in
$XDG_CACHE_HOME/coffer-tidy (~/.cache/coffer-tidy); findings are never recorded. With FULL=1 in the environment every file is read.
"""

import argparse
import hashlib
import json
import os
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "coffer-tidy"


def commands(build):
    """By file: how it is compiled, without what names an output."""
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        words = shlex.split(entry["command"])
        if Path(words[0]).name == "ccache":
            del words[0]
        output = words.index("-o")
        found[Path(entry["file"]).resolve()] = (entry["directory"], words[:output] + words[output + 2:])
    return found


def read(command, directory, extra):
    """What the compiler reads of a file; None where it cannot be preprocessed, which clang-tidy then says better."""
    words = [word for word in command if word != "-c"] + extra + ["-E", "-C"]
    run = subprocess.run(words, cwd=directory, capture_output=True)
    return run.stdout.replace(str(ROOT).encode(), b".") if run.returncode == 0 else None


class Tidy:
    def __init__(self, arguments):
        self.options = [option for option in (arguments.checks and f"--checks={arguments.checks}",) if option]
        self.options += [f"--extra-arg={extra}" for extra in arguments.extra_arg]
        self.extra = arguments.extra_arg
        self.build = arguments.p
        self.commands = commands(arguments.p)
        version = subprocess.run(["clang-tidy", "--version"], capture_output=True, check=True).stdout
        self.common = [version, (ROOT / ".clang-tidy").read_bytes(), *(o.replace(str(ROOT), ".").encode() for o in self.options)]

    def key(self, file):
        """None for a file that is not compiled here."""
        directory, command = self.commands.get(file.resolve(), (None, None))
        text = read(command, directory, self.extra) if command else None
        if text is None:
            return None
        digest = hashlib.sha256()
        for part in [*self.common, *(word.replace(str(ROOT), ".").encode() for word in command), text]:
            digest.update(len(part).to_bytes(8, "little") + part)
        return digest.hexdigest()

    def run(self, file):
        """Whether a file is clean, and whether it was read."""
        key = self.key(file)
        known = CACHE / key[:2] / key if key else None
        if known and known.exists() and not os.environ.get("FULL"):
            return True, False
        run = subprocess.run(["clang-tidy", "--quiet", "-p", str(self.build), *self.options, str(file)], capture_output=True, text=True)
        # A warning is an error by .clang-tidy; what is said without one (warnings that are suppressed, counted) is not of interest.
        if run.returncode != 0:
            sys.stdout.write(run.stdout + run.stderr)
            return False, True
        if known:
            known.parent.mkdir(parents=True, exist_ok=True)
            known.touch()
        return True, True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-p", type=Path, required=True)
    parser.add_argument("--checks")
    parser.add_argument("--extra-arg", action="append", default=[])
    parser.add_argument("files", nargs="+", type=Path)
    arguments = parser.parse_args()
    tidy = Tidy(arguments)
    with ThreadPoolExecutor(int(os.environ.get("JOBS") or os.cpu_count())) as pool:
        results = list(pool.map(tidy.run, arguments.files))
    print(f"clang-tidy: {len(results)} files, {sum(was_read for _, was_read in results)} of them read, the others were clean before")
    sys.exit(0 if all(clean for clean, _ in results) else 1)


if __name__ == "__main__":
    main()
