# SPDX-License-Identifier: Apache-2.0
"""tools/check/platforms.py: the table of platforms says no more than what was done."""

from __future__ import annotations

import importlib.util
import json
import os
import re
from pathlib import Path

import pytest

ROOT = Path(os.environ["COFFER_SOURCE_DIR"])
REPORT = """<testsuite><testcase name="test_one" status="run"><system-out>[==========] Running 3 test(s).
[  PASSED  ] 3 test(s).
</system-out></testcase><testcase name="test_two" status="run"><system-out>[  PASSED  ] 4 test(s).</system-out></testcase>
<testcase name="test_failed" status="fail"><system-out>[  PASSED  ] 9 test(s).</system-out></testcase>
<testcase name="fuzz_corpus" status="run"><system-out>[  PASSED  ] 9 test(s).</system-out></testcase></testsuite>"""


@pytest.fixture
def platforms():
    spec = importlib.util.spec_from_file_location("platforms", ROOT / "tools/check/platforms.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def world(platforms, tmp_path, monkeypatch):
    """A page and the record of one build, which agree."""
    monkeypatch.setattr(platforms, "RECORDS", tmp_path)
    monkeypatch.setattr(platforms, "PAGE", tmp_path / "platforms.md")
    platforms.PAGE.write_text(f"# Page\n\n{platforms.BEGIN}\n{platforms.END}\n\nMore.\n")
    row = {"system": "Linux, arm64, glibc", "compiler": "gcc 12", "compiled": "library, unit tests", "run": "qemu", "programs": 5, "tests": 70}
    write(platforms, row)
    platforms.update()
    return row


def write(platforms, row):
    (platforms.RECORDS / "arm64.json").write_text(json.dumps(row))


def refused(platforms, capsys, words, partly=False):
    with pytest.raises(SystemExit):
        platforms.check(partly)
    assert words in capsys.readouterr().err


def test_a_page_that_was_just_written(platforms, world):
    platforms.check(partly=False)
    text = platforms.PAGE.read_text()
    assert "| Linux, arm64, glibc | gcc | library, unit tests | qemu | 5 | 70 |" in text
    assert text.startswith("# Page\n") and text.endswith(f"{platforms.END}\n\nMore.\n")


@pytest.mark.parametrize("change", [{"programs": 6}, {"tests": 1000}, {"compiler": "gcc 99"}])
def test_more_tests_and_newer_compilers_are_no_fault(platforms, world, change):
    write(platforms, world | change)
    platforms.check(partly=False)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"programs": 4}, "5 programs, and only 4 ran"),
        ({"tests": 69}, "70 tests, and only 69 ran"),
        ({"run": "no"}, "run is 'qemu', and was 'no'"),
        ({"run": "here"}, "run is 'qemu', and was 'here'"),
        ({"compiled": "library"}, "compiled is 'library, unit tests', and was 'library'"),
        ({"compiler": "clang 12"}, "nothing of it was recorded"),
    ],
)
def test_a_page_that_says_something_else(platforms, world, capsys, change, words):
    write(platforms, world | change)
    refused(platforms, capsys, words)


def test_a_row_of_what_was_not_done(platforms, world, capsys):
    (platforms.RECORDS / "arm64.json").unlink()
    refused(platforms, capsys, "nothing of it was recorded")
    platforms.check(partly=True)


def test_what_was_done_and_is_not_in_the_table(platforms, world, capsys):
    (platforms.RECORDS / "armel.json").write_text(json.dumps(world | {"system": "Linux, armel, glibc"}))
    refused(platforms, capsys, "is not in the table", partly=True)


def test_the_reasons_are_those_of_the_list(platforms, world, capsys):
    page = platforms.PAGE
    page.write_text(page.read_text().replace("`test_crash`", "`test_nothing`"))
    refused(platforms, capsys, "left out")


def test_what_passed_is_counted(platforms, tmp_path):
    (tmp_path / "tests.xml").write_text(REPORT)
    assert platforms.tests_of(tmp_path / "tests.xml") == {"test_one": 3, "test_two": 4}


def test_a_program_that_does_not_say_what_passed_is_noticed(platforms, tmp_path):
    (tmp_path / "tests.xml").write_text(REPORT.replace("[  PASSED  ] 4 test(s).", "Segmentation fault"))
    with pytest.raises(SystemExit, match="test_two"):
        platforms.tests_of(tmp_path / "tests.xml")


def test_a_program_of_which_cases_are_left_out_runs(platforms, tmp_path, monkeypatch):
    (tmp_path / "left_out.txt").write_text("port-windows: test_one test_two/case: why\n")
    monkeypatch.setattr(platforms, "LEFT_OUT", tmp_path / "left_out.txt")
    assert platforms.left_out("port-windows") == {"test_one"}


def test_a_test_that_is_neither_run_nor_left_out_is_noticed(platforms, tmp_path, monkeypatch):
    (tmp_path / "tests.xml").write_text(REPORT)
    monkeypatch.setattr(platforms, "cache_of", lambda _: {"COFFER_BUILD_TESTS": "ON"})
    with pytest.raises(SystemExit, match="neither ran nor are left out.*test_alloc"):
        platforms.facts("arm64", tmp_path)


def test_the_list_names_tests_and_presets_that_exist(platforms):
    programs = {path.stem for path in ROOT.glob("tests/unit/test_*.c")}
    presets = {preset["name"] for preset in json.loads((ROOT / "CMakePresets.json").read_text())["configurePresets"]}
    for where, names, reason in platforms.exceptions():
        assert set(where) <= presets & set(platforms.SYSTEMS)
        assert {name.split("/")[0] for name in names} <= programs
        assert reason
        for program, case in (name.split("/") for name in names if "/" in name):
            assert re.search(rf"\b{case}\b", (ROOT / f"tests/unit/{program}.c").read_text())


def test_the_page_in_the_repository_can_be_read(platforms):
    rows = platforms.parse((ROOT / "tests/platforms.md").read_text())
    assert {row["system"] for row in rows} <= set(platforms.SYSTEMS.values())
    assert all((row["run"] == "no") == (row["tests"] == 0) == (row["programs"] == 0) for row in rows)
