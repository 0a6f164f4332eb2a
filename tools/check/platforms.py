#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The table of platforms in tests/platforms.md, from what the test run did.

    tools/check/platforms.py record PRESET    after the build of a preset, and the run of its tests if it has any
    tools/check/platforms.py table            the table of all that was recorded, with every number as it was
    tools/check/platforms.py check [--partly] whether tests/platforms.md says no more than was recorded; partly: whatever was left out
    tools/check/platforms.py update           writes the table into tests/platforms.md
    tools/check/platforms.py left-out PRESET  the tests that tests/left_out.txt leaves out there, as tools/check/ctest.sh wants them

A record is build/platforms/PRESET.json: facts that CMake, CTest and the test programs left in build/PRESET, none of which is typed
in by hand. The numbers of tests grow with every change, so the committed ones are least numbers: they may be lower than what ran,
never higher. All other columns have to be the same. Where unit tests run, every one has to run that tests/left_out.txt does not name.
"""

import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[2]
RECORDS = ROOT / "build/platforms"
PAGE = ROOT / "tests/platforms.md"
LEFT_OUT = ROOT / "tests/left_out.txt"
BEGIN, END = "<!-- tools/check/platforms.py update -->", "<!-- end -->"
COLUMNS = ["system", "compiler", "compiled", "run", "programs", "tests"]
COUNTS = ["programs", "tests"]
HEADING = "| system | compiler | compiled | unit tests run | programs, at least | tests in them, at least |\n|---|---|---|---|---:|---:|\n"

# The rows, in their order: what CMake's names of a system do not tell.
SYSTEMS = {
    "check-gcc": "Linux, x86-64, glibc",
    "check-gcc-asan": "Linux, x86-64, glibc, ASan and UBSan",
    "check-clang-asan": "Linux, x86-64, glibc, ASan and UBSan",
    "tsan": "Linux, x86-64, glibc, TSan",
    "arm64": "Linux, arm64, glibc",
    "s390x": "Linux, s390x, glibc",
    "armel": "Linux, armel, glibc",
    "port-musl": "Linux, x86-64, musl",
    "port-musl-static": "Linux, x86-64, musl, static",
    "port-glibc-2.17": "Linux, x86-64, glibc 2.17",
    "port-macos-arm64": "macOS, arm64",
    "port-macos-x86-64": "macOS, x86-64",
    "port-freebsd": "FreeBSD, x86-64",
    "port-windows": "Windows, x86-64",
    "port-windows-zig": "Windows, x86-64",
}
PARTS = {"CLI": "command", "EXAMPLES": "examples", "BENCH": "benchmarks", "FUZZ": "fuzz targets", "TESTS": "unit tests"}


# ---- Recording --------------------------------------------------------------------------------------------------------


def cache_of(build: Path) -> dict[str, str]:
    lines = (build / "CMakeCache.txt").read_text(encoding="utf-8").splitlines()
    return dict(re.findall(r"^(\w+):\w+=(.*)$", "\n".join(lines), re.M))


def compiler_of(build: Path) -> str:
    text = next(build.glob("CMakeFiles/*/CMakeCCompiler.cmake")).read_text(encoding="utf-8")
    told = dict(re.findall(r'^set\((\w+) "?([^")]*)"?\)', text, re.M))
    name = {"GNU": "gcc", "Clang": "clang"}[told["CMAKE_C_COMPILER_ID"]]
    zig = "Zig's " if "zig" in Path(told["CMAKE_C_COMPILER"]).name else ""
    return f"{zig}{name} {told['CMAKE_C_COMPILER_VERSION'].split('.')[0]}"


def how_run(build: Path) -> str:
    """By what the test programs were started: the first word of each test's command."""
    told = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], check=True, capture_output=True, text=True).stdout
    starters = {Path(test["command"][0]).name for test in json.loads(told)["tests"] if test["name"].startswith("test_")}
    for emulator in ("qemu", "wine"):
        if all(name.startswith(emulator) for name in starters):
            return emulator
    return "here"


def tests_of(report: Path) -> dict[str, int]:
    """How many tests passed in each program that ran, by CTest's report."""
    ran = {}
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        if case.get("name").startswith("test_") and case.get("status") == "run":
            said = case.findtext("system-out") or ""
            passed = re.findall(r"\[  PASSED  \] (\d+) test", said)
            if not passed:
                sys.exit(f"{case.get('name')}: ended without saying how many tests passed")
            ran[case.get("name")] = sum(map(int, passed))
    return ran


def exceptions() -> list[tuple[list[str], list[str], str]]:
    """Presets, tests that do not run there, and why."""
    lines = [line for line in LEFT_OUT.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    parts = [[part.strip() for part in line.split(":", 2)] for line in lines]
    return [(presets.split(), names.split(), reason) for presets, names, reason in parts]


def left_out(preset: str) -> set[str]:
    """The programs. Of those of which cases are left out the rest runs."""
    return {name for presets, names, _ in exceptions() if preset in presets for name in names if "/" not in name}


def facts(preset: str, build: Path) -> dict[str, object]:
    cache = cache_of(build)
    compiled = ["library", *(name for part, name in PARTS.items() if cache.get(f"COFFER_BUILD_{part}") == "ON")]
    ran = tests_of(build / "tests.xml") if "unit tests" in compiled else {}
    if ran:
        programs = {path.stem for path in ROOT.glob("tests/unit/test_*.c")}
        if wrong := programs - ran.keys() ^ left_out(preset):
            sys.exit(f"{preset}: tests that neither ran nor are left out, or both: {' '.join(sorted(wrong))}")
    return {
        "system": SYSTEMS[preset],
        "compiler": compiler_of(build),
        "compiled": ", ".join(compiled),
        "run": how_run(build) if ran else "no",
        "programs": len(ran),
        "tests": sum(ran.values()),
    }


def record(preset: str) -> None:
    if preset in SYSTEMS:
        RECORDS.mkdir(parents=True, exist_ok=True)
        text = json.dumps(facts(preset, ROOT / "build" / preset), indent=2)
        (RECORDS / f"{preset}.json").write_text(text + "\n", encoding="utf-8")


# ---- The table --------------------------------------------------------------------------------------------------------


def recorded() -> list[dict[str, object]]:
    files = [RECORDS / f"{preset}.json" for preset in SYSTEMS]
    return [json.loads(file.read_text(encoding="utf-8")) for file in files if file.exists()]


def table(rows: list[dict[str, object]]) -> str:
    lines = ["| " + " | ".join(str(row[column] or "–") for column in COLUMNS) + " |\n" for row in rows]
    return HEADING + "".join(lines)


def reasons() -> str:
    """What does not run, as a list."""
    return "".join(
        f"* {'; '.join(SYSTEMS[preset] for preset in presets)}: {reason}: {', '.join(f'`{name}`' for name in names)}.\n"
        for presets, names, reason in exceptions()
    )


def wrapped(text: str) -> str:
    return "".join(textwrap.fill(line, 120, subsequent_indent="  ", break_on_hyphens=False) + "\n" for line in text.splitlines())


def parse(text: str) -> list[dict[str, object]]:
    """The rows of the table between the marks."""
    rows = []
    for line in text.split(HEADING, 1)[1].split("\n\n", 1)[0].splitlines():
        row = dict(zip(COLUMNS, (cell.strip() for cell in line.strip("|").split("|")), strict=True))
        rows.append(row | {column: 0 if row[column] == "–" else int(row[column]) for column in COUNTS})
    return rows


def key(row: dict[str, object]) -> tuple[object, str]:
    """What tells rows apart. The version of a compiler is that of the machine."""
    return row["system"], re.sub(r" \d+$", "", str(row["compiler"]))


def faults(said: list[dict[str, object]], done: list[dict[str, object]], partly: bool) -> list[str]:
    """What the table says that was not done, or does not say."""
    found = []
    of = {key(row): row for row in done}
    for row in said:
        name = ", ".join(map(str, key(row)))
        truth = of.pop(key(row), None)
        if truth is None:
            found += [] if partly else [f"{name}: is in the table, and nothing of it was recorded"]
            continue
        found += [f"{name}: {column} is '{row[column]}', and was '{truth[column]}'" for column in ("compiled", "run") if row[column] != truth[column]]
        found += [f"{name}: {row[column]} {column}, and only {truth[column]} ran" for column in COUNTS if row[column] > truth[column]]
    return found + [f"{', '.join(map(str, name))}: was recorded, and is not in the table" for name in of]


def check(partly: bool) -> None:
    text = PAGE.read_text(encoding="utf-8")
    found = faults(parse(text), recorded(), partly)
    if f"Not run:\n\n{wrapped(reasons())}\n" not in text:
        found.append("what is left out is not what tests/left_out.txt says")
    if found:
        print(*found, "tests/platforms.md: tools/check/platforms.py update writes the table", sep="\n", file=sys.stderr)
        sys.exit(1)


def update() -> None:
    before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN, 1)
    text = table([row | {"compiler": key(row)[1]} for row in recorded()])
    PAGE.write_text(f"{before}{BEGIN}\n\n{text}\nNot run:\n\n{wrapped(reasons())}\n{END}{rest.split(END, 1)[1]}", encoding="utf-8")


def main() -> None:
    match sys.argv[1:]:
        case ["record", preset]:
            record(preset)
        case ["table"]:
            print(table(recorded()), end="")
        case ["left-out", preset]:
            print("|".join(left_out(preset)))
        case ["check"]:
            check(partly=False)
        case ["check", "--partly"]:
            check(partly=True)
        case ["update"]:
            update()
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
