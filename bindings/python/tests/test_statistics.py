# SPDX-License-Identifier: Apache-2.0
"""coffer.statistics against numpy; tests/python/test_numbers.py compares the library's numbers for every dtype."""

import coffer
import numpy as np
import pytest
from conftest import array_file


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "m.safetensors"
    rng = np.random.default_rng(7)
    path.write_bytes(
        array_file(
            {
                "weights": rng.standard_normal((300, 5000)).astype(np.float32),  # more than one chunk
                "odd": np.array([np.nan, np.inf, -np.inf, 0, 1e-40, 2], np.float32),
                "wide": np.array([-(2**63), 2**53 + 1, 2**63 - 1]),
                "empty": np.zeros((0, 3), np.float16),
            }
        )
    )
    with coffer.open(path) as opened:
        yield opened


def test_weights(file):
    array = file["weights"].numpy().astype(np.float64)
    found = coffer.statistics(file["weights"], bins=10)
    assert (found.numbers, found.finite, found.min, found.max) == (array.size, array.size, array.min(), array.max())
    assert found.mean == pytest.approx(array.mean(), abs=1e-12) and found.std == pytest.approx(array.std())
    assert found.histogram == np.histogram(array, 10)[0].tolist()


def test_odd_numbers(file):
    found = coffer.statistics(file["odd"])
    assert found[:6] == (6, 3, 1, 2, 1, 1) and (found.min, found.max, found.histogram) == (0, 2, [])


def test_ends_of_integers_are_exact(file):
    found = coffer.statistics(file["wide"])
    assert (found.min, found.max) == (-(2**63), 2**63 - 1)


def test_no_numbers(file):
    found = coffer.statistics(file["empty"], bins=3)
    assert found == (0, 0, 0, 0, 0, 0, None, None, None, None, [0, 0, 0])


def test_wrong_calls(file):
    for tensor, bins in ((file["weights"][0], 0), (file["weights"], -1), (file["weights"], 1 << 20)):
        with pytest.raises(coffer.Error) as caught:
            coffer.statistics(tensor, bins=bins)
        assert caught.value.code == "ARGUMENT"
    with pytest.raises(TypeError):
        coffer.statistics(3)
