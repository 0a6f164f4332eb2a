# SPDX-License-Identifier: Apache-2.0
"""tools/assurance/bench_goals.awk: each row with a goal says whether it was reached."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

AWK = Path(os.environ["COFFER_SOURCE_DIR"]) / "tools/assurance/bench_goals.awk"


def judged(row: str) -> str:
    return subprocess.run(["awk", "-f", AWK], input=row + "\n", capture_output=True, text=True, check=True).stdout.rstrip("\n")


@pytest.mark.parametrize(
    ("ours", "ratio", "state", "wanted"),
    [
        ("3", "1.2", "cold; should be 1.20", "cold; goal 1.20: reached"),
        ("3", "1.19", "cold; should be 1.20", "cold; goal 1.20: missed"),
        ("3", "10", "cold; should be 9.5", "cold; goal 9.5: reached"),
        ("0.9", "", "each; should be at most 1", "each; goal at most 1: reached"),
        ("10", "", "each; should be at most 9", "each; goal at most 9: missed"),
        ("3", "0.5", "warm, validated", "warm, validated"),
    ],
)
def test_a_row_says_whether_its_goal_was_reached(ours, ratio, state, wanted):
    row = f"ROW\twhat\tms\t{ours}\tother\t2\t{ratio}\t"
    assert judged(row + state) == row + wanted


def test_other_lines_stay():
    assert judged("NOTE\tshould be 3") == "NOTE\tshould be 3"
