# SPDX-License-Identifier: Apache-2.0
"""coffer.doctor: what is wrong with a model and with all that lies around it, and what fixes it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from ._native import Model
from ._native import doctor as native_doctor

if TYPE_CHECKING:
    from ._native import Advice, Evidence, Progress, Severity

    Path = str | os.PathLike[str] | os.PathLike[bytes]


class DiagnosisStep(NamedTuple):
    """A step of advice.

    action  "coffer": words[1] is a verb of the command; "remove", "rename", "copy": a file; "program": another program is run
    words   of a command line, unquoted, the program first
    """

    action: Advice
    words: tuple[str, ...]


class DiagnosisFinding(NamedTuple):
    """Something that is wrong, or good to know.

    severity  "error" keeps the model from being loaded, or from being the one that was saved; "warning"; "note"
    kind      for programs: "shard_missing"
    evidence  all that was read to know it: "names", "files", "headers" or "data"
    file      below the path; "" is the path itself
    tensor    the first that it is about; None where it is about none
    offset    byte of the file, where it is about one
    more      findings of this kind that are counted and not listed
    steps     what to do, one after the other
    fixes     whether the steps remove it, and it was shown that no tensor is lost; else they only show more
    """

    severity: Severity
    kind: str
    evidence: Evidence
    file: str
    tensor: str | None
    offset: int | None
    message: str
    more: int
    steps: tuple[DiagnosisStep, ...]
    fixes: bool


class DiagnosisModel(NamedTuple):
    """A model that was looked at: its file or index below the path, its model_type, and its size in bytes."""

    name: str
    type: str | None
    files: int
    tensors: int
    size: int


class DiagnosisScope(NamedTuple):
    """How many of something were looked at, and how many were there and passed over."""

    looked_at: int
    passed_over: int


class Diagnosis(NamedTuple):
    """What was found. That there is no finding says something only of what was looked at.

    errors, warnings, notes   findings, those that are not listed included
    findings    errors first; of a kind at most 10
    scope       of "folders", "files", "models", "configs", "numbers", "digests", "hub_digests" and "copies"
    unreadable  something could not be read, or there is no model
    """

    errors: int
    warnings: int
    notes: int
    findings: tuple[DiagnosisFinding, ...]
    models: tuple[DiagnosisModel, ...]
    scope: dict[str, DiagnosisScope]
    unreadable: bool


def doctor(path: Path, *, against: Path | None = None, data: bool = False, progress: Progress | None = None) -> Diagnosis:
    """Looks at a folder with all folders in it, at one file or index, or at a URL. Nothing is changed, and nothing of a file is run.

    against   another model, which it is compared with too: what it was trained from, or a copy
    data      read everything: numbers, digests, and whether what is there twice is the same
    progress  called with the bytes done, and in all, of each long step
    """
    if against is None:
        told = native_doctor(path, data=data, progress=progress)
    else:
        other = Model.open(against, access="read")
        try:
            told = native_doctor(path, other, against, data=data, progress=progress)
        finally:
            other.close()
    errors, warnings, notes, findings, models, scope, unreadable = told
    return Diagnosis(
        errors,
        warnings,
        notes,
        tuple(DiagnosisFinding(*found[:8], tuple(DiagnosisStep(*step) for step in found[8]), found[9]) for found in findings),
        tuple(DiagnosisModel(*model) for model in models),
        {subject: DiagnosisScope(*counts) for subject, counts in scope.items()},
        unreadable,
    )
