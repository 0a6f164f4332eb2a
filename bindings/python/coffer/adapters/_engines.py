# SPDX-License-Identifier: Apache-2.0
"""What the plug-ins for engines share."""

from __future__ import annotations

import importlib.util
import inspect
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

from .._errors import wrong_argument

logger = logging.getLogger("coffer")

NAME = "coffer"
# Set to 1, it has Coffer load what engines would load by default.
AUTO = "COFFER_LOAD_AUTO"
_OPTIONS = frozenset({"memory", "threads"})
_reading: ContextVar[Mapping[str, Any] | None] = ContextVar("coffer_reading", default=None)


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


@contextmanager
def reading(options: Mapping[str, Any]) -> Iterator[None]:
    """For the length of the block, Coffer gives what an engine's iterators over safetensors files would."""
    token = _reading.set(options)
    try:
        yield
    finally:
        _reading.reset(token)


def options_of_reading() -> Mapping[str, Any] | None:
    """The options of `Weights` in such a block; None elsewhere."""
    return _reading.get()


@cache
def warn(message: str) -> None:
    """Says something once in a process."""
    logger.warning(message)


def arguments_of(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """What a call gives an engine's function, by the names that it has there, the defaults too."""
    bound = inspect.signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.arguments


def iterate_lazily(files: Iterable[str], options: Mapping[str, Any], *, bar: bool) -> Iterator[tuple[str, Any]]:
    """Names and lazy tensors of all tensors in some files."""
    from tqdm.auto import tqdm

    from .lazy_tensors import Weights

    with Weights(files, **options) as weights:
        # Twenty steps: servers' logs keep them all.
        step = max(1, len(weights) // 20)
        yield from tqdm(weights, "Loading tensors by Coffer", len(weights), disable=not bar, miniters=step, mininterval=0)
    logger.info("loaded weights: %s", weights.statistics)
