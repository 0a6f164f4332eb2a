# SPDX-License-Identifier: Apache-2.0
"""Every golden case of tests/golden: golden.py says what a case is, model_files.py what lies in its folder.

Needs COFFER_CLI. With --update-goldens the cases are rewritten to what the program says now, for people to review.
"""

import os
import shutil
from pathlib import Path

import golden
import pytest
from model_files import make_golden_files

CASES = Path(__file__).resolve().parents[1] / "golden"


@pytest.fixture(name="files", scope="session")
def fixture_files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("golden") / "files"
    folder.mkdir()
    make_golden_files(folder)
    return folder


@pytest.fixture(name="program", scope="session")
def fixture_program(tmp_path_factory):
    """A folder in which the program under test is called coffer."""
    folder = tmp_path_factory.mktemp("program")
    (folder / "coffer").symlink_to(Path(os.environ["COFFER_CLI"]).resolve())
    return folder


@pytest.mark.parametrize("case", sorted(CASES.glob("*/*.txt")), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_case(case, files, program, tmp_path, pytestconfig):
    folder = tmp_path / "case"
    shutil.copytree(files, folder)
    expected = case.read_text(encoding="utf-8")
    found = golden.replay(expected, folder, golden.environment_of(program))
    if pytestconfig.getoption("update_goldens") and found != expected:
        case.write_text(found, encoding="utf-8")
        expected = found
    assert found == expected


def commands_without_a_case(cases):
    commands = {path.stem.removeprefix("cmd_") for path in (cases.parents[1] / "cli/commands").rglob("cmd_*.c")}
    return commands - {folder.name for folder in cases.iterdir()}


def test_there_are_cases_for_every_command():
    assert commands_without_a_case(CASES) == set()


@pytest.mark.parametrize("line", ["1| a", "2| a", "T| a", "= 1", "1\\ a", "1|"])
def test_a_case_that_says_something_else_is_noticed(line, tmp_path, program):
    text = f"$ true\n{line}\n= 0\n"
    assert golden.replay(text, tmp_path, golden.environment_of(program)) == "$ true\n= 0\n"
