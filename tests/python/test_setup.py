# SPDX-License-Identifier: Apache-2.0
"""tools/setup.sh beside another apt-get, which a fake one plays here."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

SETUP = Path(os.environ["COFFER_SOURCE_DIR"], "tools/setup.sh").read_text()
FUNCTION = re.search(r"^apt_get\(\) \{.*?^\}$", SETUP, re.M | re.S)[0]
LOCK = "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 1 (apt-get)"


def run(folder: Path, message: str, failures: int) -> tuple[int, str, list[str]]:
    """What apt_get did where the first calls fail: its status, what it said, and the calls."""
    fake = folder / "apt-get"
    calls = folder / "calls"
    calls.write_text("")
    fake.write_text(f'#!/bin/sh\necho "$*" >>{calls}\necho progress\n[ $(wc -l <{calls}) -gt {failures} ] || {{ echo "{message}" >&2; exit 100; }}\n')
    fake.chmod(0o755)
    script = f'set -euo pipefail\nas_root() {{ "$@"; }}\nsleep() {{ :; }}\n{FUNCTION}\napt_get update\necho done\n'
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60, env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"})
    return done.returncode, done.stdout + done.stderr, calls.read_text().splitlines()


@pytest.mark.parametrize("failures", [0, 1, 3])
def test_it_waits_for_another_apt(tmp_path, failures):
    code, said, calls = run(tmp_path, LOCK, failures)
    assert (code, said, len(calls)) == (0, "done\n", failures + 1)
    assert all("-o DPkg::Lock::Timeout=" in call and call.endswith(" update") for call in calls)


def test_it_does_not_wait_for_what_will_not_change(tmp_path):
    code, said, calls = run(tmp_path, "E: Unable to locate package coffer", 9)
    assert (code, said, len(calls)) == (1, "E: Unable to locate package coffer\n", 1)


def test_no_other_call_of_apt_get_needs_a_lock():
    """But those with folders of their own."""
    lines = [line.strip() for line in SETUP.splitlines() if re.search(r"\bapt-get\b", line) and not line.lstrip().startswith("#")]
    calls = [line for line in lines if re.search(r"(^|[ (])apt-get -", line)]
    assert sum("DPkg::Lock::Timeout" in call for call in calls) == 1
    assert all("DPkg::Lock::Timeout" in call or 'Dir::State="$folder"' in call or "--print-uris" in call for call in calls)


# ---- Every goal ----------------------------------------------------------------------------------------------------

SOURCE = Path(os.environ["COFFER_SOURCE_DIR"])
MAKEFILE = (SOURCE / "Makefile").read_text()
RECIPES = {goal: recipe for goal, recipe in re.findall(r"^([a-z]+):.*\n((?:\t.*\n)*)", MAKEFILE, re.M)}
# What a goal runs that setup.sh can install, and in which package it is.
PACKAGES = dict(re.findall(r"need_command (\S+) (\S+)", SETUP))


def without_comments(text: str) -> str:
    return re.sub(r"(^|\s)#.*", "", re.sub(r"/\*.*?\*/", "", text, flags=re.S))


def scripts_of(text: str, found: dict[str, str]) -> dict[str, str]:
    """The scripts in tools that a text names, with those that these name, but setup.sh, which goals only ask."""
    for name in re.findall(r"\btools/[a-z_]+\.(?:sh|py)\b", text):
        if name not in found and name != "tools/setup.sh":
            found[name] = without_comments((SOURCE / name).read_text())
            scripts_of(found[name], found)
    return found


def programs_of(goal: str) -> dict[str, str]:
    """Programs that a goal runs, each with the file that says so."""
    scripts = scripts_of(RECIPES[goal], {"Makefile": RECIPES[goal].replace("\t@", "\t")})
    found = {}
    for name, text in scripts.items():
        if name.endswith(".py"):
            words = re.findall(r"""[\[(]["']([a-z][a-z0-9_+-]*)["'],""", text)
        else:
            words = re.findall(r"(?:^|[|&;(`]|\bthen|\bdo|\belse|\bif|!|\bexec)\s*([a-z][a-z0-9_+-]*)(?=\s|$)", text.replace("xargs -0 ", "; "), re.M)
        found |= {word: name for word in words if word in PACKAGES}
    if "tools/ctest.sh" in scripts:
        for path in [*SOURCE.glob("bench/*.c"), *SOURCE.glob("tests/unit/*.c")]:
            text = without_comments(path.read_text())
            # A yardstick that is looked for before it is run may be missing.
            optional = set(re.findall(r'"([a-z0-9_-]+)"', " ".join(re.findall(r"bench_has_program\(.*", text))))
            found |= {word: path.name for word in re.findall(r'"([a-z][a-z0-9_-]*)"', text) if word in PACKAGES and word not in optional}
    return found


def installed_for(goal: str) -> set[str]:
    """What setup.sh installs for it where nothing is there."""
    nothing = 'for probe in has $(compgen -A function has_); do eval "$probe() { return 1; }"; done\nis_debian() { return 0; }'
    functions = SETUP[: SETUP.index("# ---- Getting it")]
    script = f'{functions}\n{nothing}\nfind_missing || true\nprintf "%s\\n" "${{packages[@]}}"\n'
    done = subprocess.run(["bash", "-c", script, SOURCE / "tools/setup.sh", goal], cwd=SOURCE, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def setup_goals_of(goal: str) -> set[str]:
    texts = scripts_of(RECIPES[goal], {"Makefile": RECIPES[goal]}).values()
    return {name for text in texts for name in re.findall(r"tools/setup\.sh ([a-z0-9-]+)", text)}


def test_the_goals_that_documents_name_are_there():
    named = {name for document in ("README.md", "CONTRIBUTING.md")
             for name in re.findall(r"\bmake ([a-z]+)\b(?=[`,]|\s+#|\s+PREFIX|$)", (SOURCE / document).read_text(), re.M)}  # fmt: skip
    assert len(named) > 15 and named <= set(RECIPES)


@pytest.mark.parametrize("goal", sorted(set(RECIPES) - {"clean", "help"}))
def test_what_a_goal_runs_is_installed_for_it(goal):
    # `install` and `js` build first.
    installed = installed_for("build").union(*(installed_for(name) for name in setup_goals_of(goal)))
    missing = {program: file for program, file in programs_of(goal).items() if PACKAGES[program] not in installed}
    assert not missing


def test_that_is_looked_for_at_all():
    assert programs_of("format") == {"clang-format": "Makefile", "git": "Makefile"}
    assert programs_of("test")["python3"] == "tools/ctest.sh"
    assert PACKAGES["xxhsum"] == "xxhash" and "xxhash" in installed_for("bench") and "xxhash" not in installed_for("test")
