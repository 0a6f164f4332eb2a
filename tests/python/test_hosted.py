# SPDX-License-Identifier: Apache-2.0
"""The workflow for hosted machines cannot be run here. It is parsed, and what it names is held against the Makefile and setup.sh."""

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

SOURCE = Path(os.environ["COFFER_SOURCE_DIR"])
WORKFLOWS = sorted((SOURCE / ".github/workflows").glob("*.yml"))
GOALS = set(re.findall(r"^([a-z]+):", (SOURCE / "Makefile").read_text(), re.M))
SETUP_GOALS = re.search(r"GOALS='(.*?)'", (SOURCE / "tools/build/setup.sh").read_text(), re.S)[1].split()


def jobs_of(text):
    return yaml.safe_load(text)["jobs"]


def commands_of(job):
    return [line for step in job["steps"] for line in step.get("run", "").splitlines()]


def unknown(jobs):
    """What the jobs ask of make, or of setup.sh through it, that is not there; and jobs that wait for none."""
    found = []
    for name, job in jobs.items():
        found += [f"{name} needs {other}" for other in job.get("needs", ()) if other not in jobs]
        for command in commands_of(job):
            if not re.match(r"make\b", command):
                continue
            words = re.sub(r'\w+=("[^"]*"|\S+)', "", command).split()[1:]
            found += [f"{name}: make {goal}" for goal in words if goal not in GOALS]
            wanted = re.search(r'\bFOR=(?:"([^"]*)"|(\S+))', command)
            found += [f"{name}: FOR={goal}" for goal in ((wanted[1] or wanted[2]).split() if wanted else ()) if goal not in SETUP_GOALS]
    return found


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_every_goal_that_a_workflow_names_is_there(path):
    jobs = jobs_of(path.read_text())
    assert unknown(jobs) == []
    for name, job in jobs.items():
        assert job["timeout-minutes"] and job["runs-on"] and any(command.startswith("make") for command in commands_of(job)), name
        for step in job["steps"]:
            assert ("run" in step) != ("uses" in step)
            assert "uses" not in step or re.fullmatch(r"[\w-]+/[\w-]+@v\d+", step["uses"])


def test_the_three_systems_build_and_the_release_waits_for_all():
    jobs = jobs_of((SOURCE / ".github/workflows/check.yml").read_text())
    systems = {system for name in jobs for system in ("ubuntu", "macos", "windows")
               if str(jobs[name]["runs-on"]).startswith(system) or system in str(jobs[name].get("strategy"))}  # fmt: skip
    assert systems == {"ubuntu", "macos", "windows"}
    assert all("make" in commands_of(jobs[name]) for name in ("linux", "macos", "windows"))
    assert set(jobs["release"]["needs"]) == set(jobs) - {"release"} and "make release" in commands_of(jobs["release"])
    assert "make check" in commands_of(jobs["check"])


@pytest.mark.parametrize(("command", "complaint"), [("make chekc", "a: make chekc"), ("make deps FOR=chekc", "a: FOR=chekc"),
                                                    ('make deps FOR="build chekc"', "a: FOR=chekc")])
def test_a_goal_that_is_not_there_is_noticed(command, complaint):
    assert unknown({"a": {"steps": [{"run": f"true\n{command}"}]}}) == [complaint]
    assert unknown({"a": {"needs": ["b"], "steps": []}}) == ["a needs b"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_the_commands_are_shell(path):
    for job in jobs_of(path.read_text()).values():
        for command in commands_of(job):
            plain = re.sub(r"\$\{\{.*?\}\}", "x", command)
            assert subprocess.run(["bash", "-n", "-c", plain], check=False).returncode == 0, command
