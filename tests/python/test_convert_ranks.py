# SPDX-License-Identifier: Apache-2.0
"""Files of the ranks of a training (DeepSpeed's ZeRO, FSDP), which tests/attacks/make_ranks.py makes: the right ones convert, in the
confined process and without it, and those that contradict each other are refused, with the reason."""

import json

import make_ranks
import pytest
from test_convert_shards import WHOLE, convert, tensors_of, write

GOOD = [("deepspeed", *each) for each in make_ranks.zero_good()] + [("fsdp", *each) for each in make_ranks.fsdp_good()]
ATTACKS = [*(("zero-" + called, *rest) for called, *rest in make_ranks.zero_attacks()),
           *(("fsdp-" + called, *rest) for called, *rest in make_ranks.fsdp_attacks())]


def named(folder):
    """Any file of the ranks of FSDP stands for all of them; those of DeepSpeed are found by their folder."""
    ranks = sorted(folder.glob("model_world_size_*"))
    return ranks[0] if ranks else folder


@pytest.mark.parametrize(("kind", "called", "files"), GOOD, ids=lambda value: value if isinstance(value, str) else "")
@pytest.mark.parametrize("option", ["--no-sandbox", "-q"])
def test_good_folders(tmp_path, kind, called, files, option):
    folder = write(tmp_path / called, files)
    run = convert(named(folder), tmp_path / "w.safetensors", option)
    assert run.returncode == 0, run.stdout
    told = json.loads(run.stdout)
    assert told["from"] == kind and told["verified"]
    assert sum(told["account"][each] for each in ("written", "aliased", "skipped", "unreferenced")) == told["account"]["total"]
    assert tensors_of(tmp_path / "w.safetensors") == {"w": ("F32", [4, 6], WHOLE)}


@pytest.mark.parametrize(("called", "files", "status", "says"), ATTACKS, ids=[each[0] for each in ATTACKS])
def test_attacks(tmp_path, called, files, status, says):
    folder = write(tmp_path / called, files)
    for option in ("--no-sandbox", "-q"):
        run = convert(named(folder), tmp_path / "w.safetensors", option)
        assert run.returncode == 1, run.stdout
        error = json.loads(run.stdout)["error"]
        assert (error["name"], says in error["message"]) == (status, True), error
        assert not (tmp_path / "w.safetensors").exists()


@pytest.mark.parametrize(("called", "says"), list(make_ranks.zero_refused_names()))
def test_parts_that_are_not_put_together(tmp_path, called, says):
    folder = write(tmp_path / "m", {called: make_ranks.zero_model()})
    run = convert(folder / called, tmp_path / "w.safetensors")
    error = json.loads(run.stdout)["error"]
    assert error["name"] == "UNSUPPORTED" and says in error["message"] and called in error["message"]
