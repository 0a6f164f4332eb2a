# SPDX-License-Identifier: Apache-2.0
"""The comparison of two commits (bench/against.py): which figure is the better one, and what it calls slower."""

import importlib.util
import os
from pathlib import Path

import pytest

SOURCE = Path(os.environ["COFFER_SOURCE_DIR"])


@pytest.fixture(scope="module")
def against():
    spec = importlib.util.spec_from_file_location("against", SOURCE / "bench/against.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def runs(unit, *figures):
    return [{("read", "cached"): (figure, unit)} for figure in figures]


@pytest.mark.parametrize("unit, ours, theirs, ratio", [
    ("GB/s", (4, 4, 4), (2, 2, 2), 2),
    ("ms", (4, 4, 4), (2, 2, 2), 0.5),
    ("MB", (1, 1, 1), (2, 2, 2), 2),
    ("us", (1, 1, 9), (2, 2, 2), 2),  # the median
])
def test_a_ratio_says_how_many_times_as_good_this_tree_is(against, unit, ours, theirs, ratio):
    [(_, _, _, _, ratios)] = against.compare(runs(unit, *ours), runs(unit, *theirs))
    assert sorted(ratios)[1] == ratio


@pytest.mark.parametrize("ratios, word", [
    ((0.9, 0.95, 0.97), "slower"),
    ((0.9, 0.95, 1.0), ""),
    ((0.985, 0.985, 0.985), ""),
    ((1.1, 1.05, 1.3), "faster"),
    ((1.1, 1.05, 1.01), ""),
])
def test_a_row_is_called_slower_only_where_every_round_says_so(against, ratios, word):
    assert against.verdict(ratios) == word


def test_a_row_that_only_one_tree_has_is_named(against, capsys):
    only = [{**rows, ("new", ""): (1, "ms")} for rows in runs("ms", 1)]
    against.print_table(only, runs("ms", 2), "0123456789abcdef")
    out = capsys.readouterr().out
    assert "| read, cached | ms | 1 | 2 | 2.00 | 2.00–2.00 | faster |" in out
    assert "Only this tree has: new." in out
