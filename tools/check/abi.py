#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the ABI against what is recorded of it in tests/abi, so that it never changes unnoticed.

    tools/check/abi.py [--build DIR]             compares; fails with the lines that differ. DIR holds libcoffer.so
    tools/check/abi.py [--build DIR] --update    records what is there now, after somebody has decided that it is right

Recorded is what programs that were built before rely on:

    functions.txt    every function that the shared library exports, as the public headers declare it
    types-64.txt     size and alignment of every public type, offset and size of every field, value of every constant,
    types-32.txt     by compilers for machines of 64 and of 32 bits; a program made from coffer.h prints them

Machines: the one this runs on, s390x (64 bits) and armel (32 bits), the last two by cross compilers and qemu.
"""

import argparse
import difflib
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
INCLUDE = ROOT / "include"
RECORDS = ROOT / "tests/abi"

# name: (compiler, what runs its programs, which record holds for it)
MACHINES = {
    "this machine": (["cc"], [], "types-64.txt"),
    "s390x": (["s390x-linux-gnu-gcc"], ["qemu-s390x", "-L", "/usr/s390x-linux-gnu"], "types-64.txt"),
    "armel": (["arm-linux-gnueabi-gcc"], ["qemu-arm", "-L", "/usr/arm-linux-gnueabi"], "types-32.txt"),
}


# ---- Reading the headers --------------------------------------------------------------------------------------------


def declarations():
    """The text of the public headers without comments."""
    text = "".join(path.read_text(encoding="utf-8") for path in sorted(INCLUDE.glob("coffer/*.h")))
    return re.sub(r"/\*.*?\*/", "", text, flags=re.S)


def functions(text):
    """{name: declaration on one line} of each public function."""
    found = {}
    for declaration in re.findall(r"^COFFER_API\b(.*?);", text, flags=re.M | re.S):
        line = " ".join(declaration.split())
        found[re.search(r"\b(\w+)\(", line)[1]] = line
    return found


def structs(text):
    """{name: [fields]} of each public struct that is not opaque."""
    return {name: [field_name(part) for line in body.split(";") if line.strip() for part in split_declarators(line)]
            for body, name in re.findall(r"^typedef struct \w+ \{(.*?)^\} (\w+);", text, flags=re.M | re.S)}


def split_declarators(line):
    """`bool a, b` declares two fields, the commas of a function's parameters separate none."""
    return [line] if "(" in line else line.split(",")


def field_name(declarator):
    pointer = re.search(r"\(\*(\w+)\)", declarator)
    return pointer[1] if pointer else re.search(r"(\w+)\s*(?:\[\w+\]\s*)*$", declarator)[1]


def enums(text):
    """{name: [constants]} of each public enumeration."""
    return {name: re.findall(r"\b(COFFER_\w+)\s*=", body)
            for body, name in re.findall(r"^typedef enum \w+ \{(.*?)^\} (\w+);", text, flags=re.M | re.S)}


def numbers(text):
    """The macros that stand for numbers, but for the version, which may well change."""
    return re.findall(r"^#define (COFFER_(?!VERSION_)\w+) (?:\d\w*|UINT64_MAX)\s*$", text, flags=re.M)


# ---- Asking the compiler --------------------------------------------------------------------------------------------


def layout_program(text):
    """A C program that prints what types-*.txt record."""
    lines = ["#include <coffer.h>", "#include <stdio.h>",
             "#define TYPE(t) printf(#t \": %zu bytes, aligned to %zu\\n\", sizeof(t), _Alignof(t))",
             "#define FIELD(t, f) printf(\"    %zu: \" #f \", %zu bytes\\n\", offsetof(t, f), sizeof(((t *)0)->f))",
             "#define NUMBER(n) printf(\"    \" #n \" = %llu\\n\", (unsigned long long)(n))",
             "int main(void)", "{"]
    for name, fields in sorted(structs(text).items()):
        lines += [f"    TYPE({name});", *(f"    FIELD({name}, {field});" for field in fields)]
    for name, constants in sorted(enums(text).items()):
        lines += [f"    TYPE({name});", *(f"    NUMBER({constant});" for constant in constants)]
    lines += ["    puts(\"macros\");", *(f"    NUMBER({name});" for name in sorted(numbers(text))), "    return 0;", "}"]
    return "\n".join(lines) + "\n"


def types_of(machine, text):
    compiler, runner, _ = MACHINES[machine]
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder, "layout.c"), Path(folder, "layout")
        source.write_text(layout_program(text), encoding="utf-8")
        subprocess.run([*compiler, "-std=c11", f"-I{INCLUDE}", source, "-o", program], check=True)
        return subprocess.run([*runner, program], check=True, capture_output=True, text=True).stdout


def exports_of(library, text):
    output = subprocess.run(["nm", "-D", "-P", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    declared = functions(text)
    symbols = sorted(line.split()[0].split("@")[0] for line in output.splitlines())
    return "".join(declared.get(symbol, f"{symbol}: not in a public header") + "\n" for symbol in symbols)


# ---- Comparing and recording ----------------------------------------------------------------------------------------


def facts(build):
    """(where it was seen, the record that holds for it, what is there now)"""
    text = declarations()
    yield "libcoffer.so", "functions.txt", exports_of(Path(build, "libcoffer.so"), text)
    for machine, (_, _, record) in MACHINES.items():
        yield machine, record, types_of(machine, text)


def differences(build):
    for place, record, now in facts(build):
        path = RECORDS / record
        then = path.read_text(encoding="utf-8") if path.exists() else ""
        yield from difflib.unified_diff(then.splitlines(), now.splitlines(), f"tests/abi/{record}", place, n=1, lineterm="")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build/check-gcc", help="where libcoffer.so was built")
    parser.add_argument("--update", action="store_true", help="record what is there now")
    options = parser.parse_args()
    if options.update:
        for _, record, now in facts(options.build):
            (RECORDS / record).write_text(now, encoding="utf-8")
    changed = list(differences(options.build))
    if changed:
        print(*changed, sep="\n")
        print("\nThe ABI is not what tests/abi records. docs/c.md says what may change and by which version; when this change "
              "is right,\nrun tools/check/abi.py --update, commit the records, and tell users in CHANGELOG.md.")
        return 1
    print(f"the ABI is what tests/abi records, on {', '.join(MACHINES)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
