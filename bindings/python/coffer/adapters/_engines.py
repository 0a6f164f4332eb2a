# SPDX-License-Identifier: Apache-2.0
"""What the plug-ins for engines share."""

from __future__ import annotations

import importlib.util
import inspect
import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .._errors import wrong_argument

logger = logging.getLogger("coffer")

NAME = "coffer"
# Set to 1, it has Coffer load what engines would load by default.
AUTO = "COFFER_LOAD_AUTO"
_OPTIONS = frozenset({"memory", "threads"})


def is_there(engine: str) -> bool:
    """Whether an engine is installed, without importing it."""
    return importlib.util.find_spec(engine) is not None


def takes_auto() -> bool:
    return os.environ.get(AUTO, "") not in ("", "0")


def options_of(extra: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Of an engine's extra configuration of its loader, the options of `Weights`, and what is left for the engine's own loader."""
    options = {name: value for name, value in extra.items() if name in _OPTIONS}
    for name, value in options.items():
        if type(value) is not int or value < 0:
            raise wrong_argument(f"the option {name} of load format {NAME} must be a whole number, not {value!r}")
    return options, {name: value for name, value in extra.items() if name not in _OPTIONS}


def files_of(loader: Any, source: Any) -> tuple[str, list[str], bool]:
    """The folder and the files that an engine's default loader would read, and whether they are safetensors files. Versions of
    engines differ in what they want to be told, but call it as the fields of the source are called."""
    wanted = list(inspect.signature(loader._prepare_weights).parameters)[1:]
    told = {name: getattr(source, name) for name in wanted if hasattr(source, name)}
    prepared = loader._prepare_weights(source.model_or_path, **told)
    return prepared[0], list(prepared[1]), bool(prepared[2])


def stand_ins(files: Iterable[str], options: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Names and stand-ins of all tensors in some files."""
    from .standins import Weights

    with Weights(files, **options) as weights:
        for name, tensor in weights:
            yield prefix + name, tensor
    logger.info("loaded weights: %s", weights.statistics)
