# SPDX-License-Identifier: Apache-2.0
"""vLLM: `--load-format coffer`, or, with COFFER_LOAD_AUTO=1, in place of the default.

vLLM calls `register` in each of its processes, by the entry point group "vllm.general_plugins". Its own models and weight loaders
run as they are, and it is its own loader that chooses the files; what reads them gives lazy tensors.
"""

from __future__ import annotations

import copy
import os
import re
from collections.abc import Callable, Iterator
from functools import cache, wraps
from typing import Any

from ._engines import NAME, arguments_of, is_there, options_of, options_of_reading, reading, iterate_lazily, takes_auto, warn

# What iterates over safetensors files for the default loader, in the module of that.
_ITERATORS = ("safetensors_weights_iterator", "multi_thread_safetensors_weights_iterator")


@cache
def register() -> None:
    """Makes the load format known. The second time, and without vLLM, it does nothing."""
    if not is_there("vllm"):
        return
    from vllm.model_executor.model_loader import register_model_loader

    for name in (NAME, "auto") if takes_auto() else (NAME,):
        register_model_loader(name)(_loader())


@cache
def _loader() -> type:
    from vllm.model_executor.model_loader import DefaultModelLoader

    class CofferModelLoader(DefaultModelLoader):  # type: ignore[misc]
        """vLLM's default loader, but for how safetensors files are read."""

        def __init__(self, load_config: Any) -> None:
            # The default loader refuses formats and options that it does not know.
            known = copy.copy(load_config)
            self._coffer_options, known.model_loader_extra_config = options_of(load_config.model_loader_extra_config or {})
            if known.load_format == NAME:
                known.load_format = "auto"
            super().__init__(known)
            _hook()

        def _get_weights_iterator(self, source: Any) -> Iterator[tuple[str, Any]]:
            with reading(self._coffer_options):
                found: Iterator[tuple[str, Any]] = super()._get_weights_iterator(source)
            return found

    return CofferModelLoader


@cache
def _hook() -> None:
    from vllm.model_executor.model_loader import default_loader

    for name in _ITERATORS:
        setattr(default_loader, name, _in_place_of(getattr(default_loader, name)))


def _in_place_of(original: Callable[..., Iterator[tuple[str, Any]]]) -> Callable[..., Iterator[tuple[str, Any]]]:
    """The same for other loaders; for Coffer's, its lazy tensors, unless torchao's subclasses are to be made of the tensors."""

    @wraps(original)
    def iterator(*args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        options = options_of_reading()
        told = arguments_of(original, args, kwargs)
        strategy = told.get("safetensors_load_strategy")
        if options is None or strategy == "torchao":
            return original(*args, **kwargs)
        if strategy in ("eager", "prefetch"):
            warn(f"safetensors_load_strategy={strategy} is ignored: Coffer reads ahead what is needed")
        if "max_workers" in told:
            warn("enable_multithread_load and num_threads are ignored: Coffer's own option is threads")
        return _local(told, options)

    return iterator


def _local(told: dict[str, Any], options: Any) -> Iterator[tuple[str, Any]]:
    """What this process needs, in vLLM's order of files: it leaves other processes' experts out."""
    from vllm.model_executor.model_loader.weight_utils import enable_tqdm

    files = sorted(told["hf_weights_files"], key=_natural)
    found = iterate_lazily(files, options, bar=enable_tqdm(told["use_tqdm_on_load"]))
    experts = told.get("local_expert_ids")
    if experts is None:
        return found
    from vllm.model_executor.model_loader.ep_weight_filter import should_skip_weight

    return ((name, tensor) for name, tensor in found if not should_skip_weight(name, experts))


def _natural(path: str) -> list[str | int]:
    """By which the tenth file comes after the second."""
    parts = re.split(r"(\d+)", os.path.basename(path))
    return [int(part) if number % 2 else part for number, part in enumerate(parts)]
