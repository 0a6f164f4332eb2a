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
