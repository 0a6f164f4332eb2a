# SPDX-License-Identifier: Apache-2.0
"""What coffer doctor prints is what coffer_doctor hands out to any program: for each kind of finding, in a folder that has it, both
say the same, and what the library says of its evidence and of its scope is true."""

import ctypes
import json
import shlex
from ctypes import POINTER, byref, c_bool, c_char_p, c_int, c_size_t, c_uint64, c_void_p

import pytest
from coffer_ctypes import LIB, Error
from doctor_cases import CASES
from test_doctor import run

SEVERITIES = ["note", "warning", "error"]
NAMES, FILES, HEADERS, DATA = range(4)
SUBJECTS = ["folders", "files", "models", "configs", "numbers", "digests", "hub_digests", "copies"]


class Options(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("allocator", c_void_p), ("data", c_bool), ("against", c_void_p), ("against_path", c_char_p),
        ("model", c_void_p), ("step", c_void_p), ("progress", c_void_p), ("progress_ctx", c_void_p), ("import", c_void_p),
        ("import_ctx", c_void_p),
    ]  # fmt: skip


class Step(ctypes.Structure):
    _fields_ = [("words", POINTER(c_char_p)), ("count", c_size_t), ("action", c_int)]


class Finding(ctypes.Structure):
    _fields_ = [
        ("severity", c_int), ("evidence", c_int), ("kind", c_char_p), ("file", c_char_p), ("tensor", c_char_p),
        ("tensor_len", c_size_t), ("offset", c_uint64), ("message", c_char_p), ("more", c_uint64), ("steps", POINTER(Step)),
        ("step_count", c_size_t), ("fixes", c_bool),
    ]  # fmt: skip


class Model(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("type", c_char_p), ("files", c_uint64), ("tensors", c_uint64), ("size", c_uint64)]


class Summary(ctypes.Structure):
    _fields_ = [
        ("errors", c_uint64), ("warnings", c_uint64), ("notes", c_uint64), ("finding_count", c_size_t), ("model_count", c_size_t),
        ("data", c_bool), ("unreadable", c_bool), ("looked_at", c_uint64 * len(SUBJECTS)), ("passed_over", c_uint64 * len(SUBJECTS)),
    ]  # fmt: skip


LIB.coffer_doctor.argtypes = POINTER(c_void_p), c_char_p, POINTER(Options), POINTER(Error)
LIB.coffer_diagnosis_finding_at.argtypes = c_void_p, c_size_t
LIB.coffer_diagnosis_finding_at.restype = POINTER(Finding)
LIB.coffer_diagnosis_model_at.argtypes = c_void_p, c_size_t
LIB.coffer_diagnosis_model_at.restype = POINTER(Model)
LIB.coffer_diagnosis_summarize.argtypes = (c_void_p,)
LIB.coffer_diagnosis_summarize.restype = POINTER(Summary)
LIB.coffer_diagnosis_free.argtypes = (c_void_p,)
LIB.coffer_open.argtypes = POINTER(c_void_p), c_char_p, c_void_p, POINTER(Error)


def text(value):
    return None if value is None else value.decode("utf-8", "surrogateescape")


def words(step):
    return [text(step.words[i]) for i in range(step.count)]


def told(finding):
    """As the command has it, its steps as lists of words."""
    return {
        "weight": SEVERITIES[finding.severity], "kind": text(finding.kind), "file": text(finding.file), "tensor": text(finding.tensor),
        "offset": None if finding.offset == 2**64 - 1 else finding.offset, "reason": text(finding.message),
        "command": [words(finding.steps[i]) for i in range(finding.step_count)], "fixes": finding.fixes, "more": finding.more,
    }  # fmt: skip


def steps_of(command):
    """What a shell makes of a command: words, step by step."""
    steps = [[]]
    for word in shlex.split(command or ""):
        if word == "&&":
            steps.append([])
        else:
            steps[-1].append(word)
    return [step for step in steps if step]


def diagnose(path, data=False, against=None):
    error, diagnosis, other = Error(), c_void_p(), c_void_p()
    if against is not None:
        assert LIB.coffer_open(byref(other), str(against).encode(), None, byref(error)) == 0, error.message
    options = Options(ctypes.sizeof(Options), data=data, against=other, against_path=against and str(against).encode())
    status = LIB.coffer_doctor(byref(diagnosis), str(path).encode(), byref(options), byref(error))
    assert status == 0, error.message
    findings, models = [], []
    while finding := LIB.coffer_diagnosis_finding_at(diagnosis, len(findings)):
        findings.append(told(finding.contents) | {"evidence": finding.contents.evidence})
    while found := LIB.coffer_diagnosis_model_at(diagnosis, len(models)):
        model = found.contents
        models.append({"file": text(model.name), "type": text(model.type), "files": model.files, "tensors": model.tensors,
                       "size": model.size})
    summary = Summary.from_buffer_copy(LIB.coffer_diagnosis_summarize(diagnosis).contents)
    LIB.coffer_diagnosis_free(diagnosis)
    LIB.coffer_close(other)
    return findings, models, summary


@pytest.fixture(params=CASES, ids=str)
def case(request, tmp_path):
    """A folder with what the case is about, and the options that find it."""
    make = CASES[request.param][1]
    folder = tmp_path / "model"
    return folder, make(folder) or []


def test_the_command_prints_what_the_library_finds(case):
    folder, options = case
    path = next((option for option in options if not str(option).startswith("--")), None)
    against = options[options.index("--against") + 1] if "--against" in options else None
    assert path is None or path == against, options
    report = json.loads(run(folder, *options, "--json").stdout)
    findings, models, summary = diagnose(folder, "--data" in options, against)
    printed = [finding | {"command": steps_of(finding["command"])} for finding in report["findings"]]
    assert [{key: value for key, value in found.items() if key != "evidence"} for found in findings] == printed
    assert models == report["models"] and summary.data == report["data"]
    assert (summary.errors, summary.warnings, summary.notes) == (report["errors"], report["warnings"], report["notes"])
    assert summary.model_count == len(models) and summary.finding_count == len(findings)


def test_what_was_not_read_is_no_evidence(case):
    folder, options = case
    against = options[options.index("--against") + 1] if "--against" in options else None
    findings, models, summary = diagnose(folder, "--data" in options, against)
    scope = dict(zip(SUBJECTS, zip(summary.looked_at, summary.passed_over)))
    if not summary.data:
        assert scope["numbers"][0] == 0 and scope["digests"][0] == 0 and scope["hub_digests"][0] == 0 and scope["copies"][0] == 0
        assert all(found["evidence"] != DATA for found in findings)
    assert scope["models"][0] == len(models) and sum(scope["numbers"]) == len(models)
    if any(found["kind"] == "unknown_family" for found in findings):
        assert scope["configs"][1] > 0
    # Data go away only where data were compared.
    for found in findings:
        removes = any(step[0] == "rm" or step[:2] == ["coffer", "drop"] for step in found["command"]) and found["fixes"]
        assert not removes or found["evidence"] == DATA or found["kind"] == "superseded", found
