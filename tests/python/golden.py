# SPDX-License-Identifier: Apache-2.0
"""Golden cases: what a command line says, kept as a file that people can read and review.

A case is tests/golden/COMMAND/NAME.txt. Lines of prose say why it is there. Then come steps, which run in one folder, one
after the other, as a shell runs them:

    $ coffer ls model.safetensors     run with pipes at its ends
    40$ coffer ls model.safetensors   run in a terminal 40 columns wide
    1| what came to standard output
    2| what came to standard error
    T| what came to the terminal
    = 0                               the exit code

A last line that does not end is marked 1\\ instead of 1|. Control characters are shown as \\e (escape), \\t, \\r and \\xNN. What
differs from run to run is replaced: see ANY_RUN. To add a case, write its prose and its `$` lines and run

    pytest tests/python/test_golden.py --update-goldens

which fills in the rest; read what it wrote before you commit it.
"""

import os
import re
import subprocess

import terminal

STEP = re.compile(r"(?P<columns>\d*)\$ (?P<command>.*)")
ANSWER = re.compile(r"([12T][|\\]|=)( |$)")
ANY_RUN = [
    (re.compile(r"\b\d+\.\d+ m?s\b|\b\d+ min \d+ s\b"), "TIME"),
    (re.compile(r'("seconds": )\d+\.\d+'), r"\1TIME"),
    (re.compile(r"edited in a clone, which replaced it"), "edited in place"),
    (re.compile(r'"done": "clone"'), '"done": "in_place"'),
]
CONTROLS = {"\x1b": r"\e", "\t": r"\t", "\r": r"\r"}


def shown(text):
    """The text with its control characters made visible, and without what differs from run to run."""
    for pattern, replacement in ANY_RUN:
        text = pattern.sub(replacement, text)
    return "".join(c if c == "\n" or c.isprintable() else CONTROLS.get(c) or f"\\x{ord(c):02x}" for c in text)


def marked(mark, text):
    lines = shown(text).split("\n")
    last = lines.pop()
    return [f"{mark}| {line}".rstrip(" ") if not line else f"{mark}| {line}" for line in lines] + \
        ([f"{mark}\\ {last}"] if last else [])


def run_step(columns, command, folder, environment):
    """The lines that stand below a step."""
    shell = ["bash", "-c", command]
    if columns:
        code, said = terminal.run(shell, int(columns), cwd=folder, env=environment)
        return [*marked("T", said), f"= {code}"]
    result = subprocess.run(shell, cwd=folder, env=environment, capture_output=True, stdin=subprocess.DEVNULL, timeout=60,
                            check=False)
    # Output that is no text, a raw tensor for one, is shown as its code points.
    out, err = (stream.decode("utf-8", "replace") for stream in (result.stdout, result.stderr))
    return [*marked("1", out), *marked("2", err), f"= {result.returncode}"]


def environment_of(program_folder):
    """Nothing of the caller's that would change what is said."""
    return {"PATH": f"{program_folder}:{os.environ['PATH']}", "TERM": "xterm", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8",
            "HOME": "/nonexistent"}


def replay(text, folder, environment):
    """The case with every answer as it comes today."""
    lines = []
    for line in text.splitlines():
        if ANSWER.match(line):
            continue
        lines.append(line)
        step = STEP.fullmatch(line)
        if step:
            lines += run_step(step["columns"], step["command"], folder, environment)
    return "\n".join(lines) + "\n"
