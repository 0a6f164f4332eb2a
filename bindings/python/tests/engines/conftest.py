# SPDX-License-Identifier: Apache-2.0
"""What the tests of both engines have in common."""

import pytest
import ranks
import tiny


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    found = tmp_path_factory.mktemp("models")
    for name, write in tiny.FOLDERS.items():
        write(found / name)
    return found


@pytest.fixture(scope="module")
def loaded(request, folder):
    """What the ranks of an engine found, by (how many there are, rank, case); the module names its script and the runs."""
    found = {}
    for world, cases, environment in request.module.RUNS:
        for rank, by_case in enumerate(ranks.run(request.module.SCRIPT, folder, world, cases, **environment)):
            found |= {(world, rank, case): result for case, result in by_case.items()}
    return found


def pytest_generate_tests(metafunc):
    """One test for each case and rank of those that take them."""
    if {"world", "rank", "case"} <= set(metafunc.fixturenames):
        metafunc.parametrize(
            ("world", "rank", "case"),
            [(world, rank, case) for world, cases, _ in metafunc.module.RUNS for case in cases for rank in range(world)],
        )
