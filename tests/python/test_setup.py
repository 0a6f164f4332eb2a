# SPDX-License-Identifier: Apache-2.0
"""tools/build/setup.sh: what it installs, when it does, and how it waits for another apt-get, which a fake one plays here."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

SETUP = Path(os.environ["COFFER_SOURCE_DIR"], "tools/build/setup.sh").read_text()
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
    for name in re.findall(r"\btools/[a-z]+/[a-z_]+\.(?:sh|py)\b", text):
        if name not in found and name != "tools/build/setup.sh":
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
    if "tools/check/ctest.sh" in scripts:
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
    done = subprocess.run(["bash", "-c", script, SOURCE / "tools/build/setup.sh", goal], cwd=SOURCE, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def setup_goals_of(goal: str) -> set[str]:
    texts = scripts_of(RECIPES[goal], {"Makefile": RECIPES[goal]}).values()
    return {name for text in texts for name in re.findall(r"tools/build/setup\.sh (?:--install )?([a-z][a-z0-9-]*)", text)}


def test_the_goals_that_documents_name_are_there():
    named = {name for document in ("README.md", "CONTRIBUTING.md")
             for name in re.findall(r"\bmake ([a-z]+)\b(?=[`,]|\s+#|\s+PREFIX|$)", (SOURCE / document).read_text(), re.M)}  # fmt: skip
    assert len(named) > 15 and named <= set(RECIPES)


@pytest.mark.parametrize("goal", sorted(set(RECIPES) - {"clean", "deps", "help"}))
def test_what_a_goal_runs_is_installed_for_it(goal):
    # `install` and `js` build first.
    installed = installed_for("build").union(*(installed_for(name) for name in setup_goals_of(goal)))
    missing = {program: file for program, file in programs_of(goal).items() if PACKAGES[program] not in installed}
    assert not missing


def test_that_is_looked_for_at_all():
    assert programs_of("format") == {"clang-format": "Makefile", "git": "Makefile"}
    assert programs_of("test")["python3"] == "tools/check/ctest.sh"
    assert PACKAGES["xxhsum"] == "xxhash" and "xxhash" in installed_for("bench") and "xxhash" not in installed_for("test")


# ---- What installs, and what does not --------------------------------------------------------------------------------

# What setup.sh itself is made of. What it looks for is not among it.
BASIC = "bash sh env dirname basename awk sed grep find cut cat cmp id printf mkdir rm cp xargs make nproc echo".split()
SAYS_SO_FIRST = ("deps", "demo", "check")
GOALS_OF_SETUP = re.search(r"GOALS='(.*?)'", SETUP, re.S)[1].split()


@pytest.fixture
def bare(tmp_path):
    """A checkout of the scripts on a machine with nothing but the basic tools; apt-get and sudo write down what they are asked for."""
    root, programs = tmp_path / "checkout", tmp_path / "bin"
    names = subprocess.run(["git", "ls-files", "tools", "Makefile", "*requirements*.txt", "*packages.txt", "packaging/oldest.txt",
                            "bindings/js/scripts/node.txt"], cwd=SOURCE, capture_output=True, text=True, check=True).stdout.split()  # fmt: skip
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(SOURCE / name, root / name)
    setup = root / "tools/build/setup.sh"
    changed = re.sub(r"^is_debian\(\) \{.*?^\}$", "is_debian() { [ ! -e ../other-system ]; }", setup.read_text(), flags=re.M | re.S)
    assert changed != setup.read_text()
    setup.write_text(changed)
    programs.mkdir()
    for name in BASIC:
        (programs / name).symlink_to(shutil.which(name))
    for name, text in (("apt-get", f'echo "$*" >>{tmp_path}/calls; exit 100'), ("sudo", 'exec "$@"')):
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    (tmp_path / "calls").write_text("")
    return root


def make(root, *words):
    """What a goal said, and what apt-get was asked for."""
    done = subprocess.run(["make", *words], cwd=root, env={"PATH": str(root.parent / "bin"), "HOME": str(root)}, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout + done.stderr, (root.parent / "calls").read_text()


@pytest.mark.parametrize("words", [[], *([goal] for goal in sorted(set(RECIPES) - {"clean", "help", *SAYS_SO_FIRST}))])
def test_a_goal_installs_nothing_unasked(bare, words):
    before = set(bare.rglob("*"))
    code, said, calls = make(bare, *words)
    assert code != 0 and calls == ""
    assert "setup: this is missing for 'make " in said and "  gcc, g++ and make\n" in said
    assert re.search(r"setup: make deps(?: FOR=[a-z]+)? installs it .*build-essential.*; nothing was installed\.", said)
    # A header that is there already is copied for other systems.
    assert [path for path in bare.rglob("*") if path not in before and path.is_file() and "port-headers" not in path.parts] == []


@pytest.mark.parametrize("words", [["deps"], ["deps", "FOR=build bench"], ["demo"], ["check"]])
def test_three_goals_install(bare, words):
    code, said, calls = make(bare, *words)
    assert code != 0 and calls.splitlines()[0].endswith(" update")
    assert words[0] == "deps" or "installs what is missing" in said.split("setup:")[0]


def test_where_there_is_no_apt_get_it_is_listed_by_all(bare):
    (bare.parent / "other-system").touch()
    for words in ([], ["deps"], ["demo"]):
        code, said, calls = make(bare, *words)
        assert code != 0 and calls == ""
        assert "  gcc, g++ and make\n" in said and "setup: install it with the package manager of this system, then try again." in said


def test_the_advice_is_a_goal_of_setup():
    assert set(GOALS_OF_SETUP) >= {name for goal in RECIPES for name in setup_goals_of(goal)} - {"node"}


def test_what_a_build_does_without_is_told(bare):
    """Of what is loaded at run time, a build wants nothing."""
    functions = SETUP[: SETUP.index("# ---- Getting it")]
    nothing = 'for probe in has_compiler has_cmake has; do eval "$probe() { return 0; }"; done\nis_debian() { return 0; }\nhas_lapack() { return 1; }'
    for goal, expected in (("build", "0 1\n"), ("test", "1 0\n"), ("--install build", "1 0\n")):
        script = f'{functions}\n{nothing}\nhas_libcurl() {{ :; }}\nhas_libcrypto() {{ :; }}\nhas_xxhash() {{ :; }}\nhas_cmocka() {{ :; }}\n'
        script += 'find_missing || true\necho ${#missing[@]} ${#without[@]}\n'
        done = subprocess.run(["bash", "-c", script, bare / "tools/build/setup.sh", *goal.split()], cwd=SOURCE, capture_output=True, text=True, check=True)
        assert done.stdout == expected
