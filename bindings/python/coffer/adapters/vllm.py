# SPDX-License-Identifier: Apache-2.0
"""vLLM: `--load-format coffer`, or, with COFFER_LOAD_AUTO=1, in place of the default.

vLLM calls `register` in each of its processes, by the entry point group "vllm.general_plugins". Its own models and weight loaders
run as they are; they are given stand-ins.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from functools import cache
from typing import Any

from ._engines import NAME, files_of, is_there, options_of, stand_ins, takes_auto


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

        counter_before_loading_weights: float

        def __init__(self, load_config: Any) -> None:
            # The default loader refuses formats and options that it does not know.
            known = copy.copy(load_config)
            self._coffer_options, known.model_loader_extra_config = options_of(load_config.model_loader_extra_config or {})
            if known.load_format == NAME:
                known.load_format = "safetensors"
            super().__init__(known)

        def _get_weights_iterator(self, source: Any) -> Iterator[tuple[str, Any]]:
            _, files, of_tensors = files_of(self, source)
            if not of_tensors or getattr(self.load_config, "safetensors_load_strategy", None) == "torchao":
                found: Iterator[tuple[str, Any]] = super()._get_weights_iterator(source)
                return found
            if self.counter_before_loading_weights == 0.0:
                self.counter_before_loading_weights = time.perf_counter()
            return stand_ins(sorted(files), self._coffer_options, source.prefix)

    return CofferModelLoader
