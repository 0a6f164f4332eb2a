# SPDX-License-Identifier: Apache-2.0
"""coffer.doctor: what it says is what the command prints, and a program can act on it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

import coffer
from coffer import __main__ as module

COMMAND = next(place for place in module._places() if place.is_file())


@pytest.fixture
def folder(path, tmp_path) -> Path:
    folder = tmp_path / "clinic"
    folder.mkdir()
    shutil.copy(path, folder / "model.safetensors")
    (folder / "config.json").write_text('{"model_type": "nobody"}')
    (folder / "late.part").write_text("half")
    return folder


def printed(*arguments):
    result = subprocess.run([COMMAND, "doctor", "--json", *arguments], capture_output=True, text=True, check=False)
    return json.loads(result.stdout)


@pytest.mark.parametrize("data", [False, True])
def test_as_the_command_has_it(folder, data):
    found = coffer.doctor(folder, data=data)
    report = printed(folder, *(["--data"] if data else []))
    assert [(one.severity, one.kind, one.file, one.tensor, one.offset, one.message, one.fixes, one.more) for one in found.findings] == [
        tuple(one[key] for key in ("weight", "kind", "file", "tensor", "offset", "reason", "fixes", "more")) for one in report["findings"]
    ]
    assert (found.errors, found.warnings, found.notes) == (report["errors"], report["warnings"], report["notes"])
    assert [list(model) for model in found.models] == [list(model.values()) for model in report["models"]]


def test_what_was_looked_at(folder):
    headers, everything = coffer.doctor(folder), coffer.doctor(folder, data=True)
    assert headers.scope["numbers"] == (0, 1) and everything.scope["numbers"] == (1, 0)
    assert headers.scope["folders"] == (1, 0) and headers.scope["configs"] == (0, 1)
    assert "data" not in {finding.evidence for finding in headers.findings}


def test_steps_can_be_taken_without_a_shell(folder):
    os.rename(folder / "config.json", folder / "Config.json")
    finding = next(finding for finding in coffer.doctor(folder).findings if finding.kind == "file_case")
    step = finding.steps[0]
    assert finding.fixes and step.action == "rename"
    os.rename(*step.words[-2:])
    assert "file_case" not in {finding.kind for finding in coffer.doctor(folder).findings}


def test_against_another(folder, path, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    shutil.copy(path, other / "model.safetensors")
    (other / "config.json").write_text('{"model_type": "somebody"}')
    kinds = {finding.kind for finding in coffer.doctor(folder, against=other).findings}
    assert "against_config" in kinds and "against_missing" not in kinds


def test_failures(tmp_path):
    with pytest.raises(coffer.Error) as failure:
        coffer.doctor(tmp_path / "nothing.safetensors")
    assert failure.value.code == "NOT_FOUND"
    assert coffer.doctor(tmp_path).unreadable


def test_progress(folder):
    told = []
    coffer.doctor(folder, data=True, progress=lambda done, total: told.append((done, total)))
    assert told and all(0 <= done <= total and total > 0 for done, total in told)

    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        coffer.doctor(folder, data=True, progress=stop)
