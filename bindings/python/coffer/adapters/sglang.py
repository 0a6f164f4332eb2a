# SPDX-License-Identifier: Apache-2.0
"""SGLang: `--load-format coffer`, or, with COFFER_LOAD_AUTO=1, in place of the default.

SGLang calls `register` in each of its processes, by the entry point group "sglang.srt.plugins", and then applies the hooks. Its own
models and weight loaders run as they are; they are given stand-ins.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from ._engines import NAME, files_of, is_there, options_of, stand_ins, takes_auto

_LOADER = "sglang.srt.model_loader.loader.get_model_loader"
_FORMAT = "sglang.srt.configs.load_config.LoadConfig._verify_load_format"


@cache
def register() -> None:
    """Makes the load format known. The second time, and without SGLang, it does nothing."""
    if not is_there("sglang"):
        return
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType
    from sglang.srt.server_args import add_load_format_choices

    add_load_format_choices([NAME])
    HookRegistry.register(_FORMAT, _verify, HookType.AROUND)
    HookRegistry.register(_LOADER, _choose, HookType.AROUND)


def _verify(original: Callable[[Any], None], config: Any) -> None:
    """The format has to be one of SGLang's enumeration, by which it chooses much else: it is that of safetensors files."""
    if isinstance(config.load_format, str) and config.load_format.lower() == NAME:
        config.load_format = "safetensors"
        config.by_coffer = True
    original(config)


def _choose(original: Callable[..., Any], load_config: Any, *args: Any, **kwargs: Any) -> Any:
    """The loader that SGLang would take, unless that is the default one for files that Coffer reads."""
    from sglang.srt.model_loader.loader import DefaultModelLoader

    wanted = getattr(load_config, "by_coffer", False)
    auto = takes_auto() and load_config.load_format in ("auto", "safetensors")
    if not wanted and not auto:
        return original(load_config, *args, **kwargs)
    # The default loader refuses options that it does not know.
    known = copy.copy(load_config)
    options, known.model_loader_extra_config = options_of(load_config.model_loader_extra_config or {})
    chosen = original(known, *args, **kwargs)
    return _loader()(known, options) if type(chosen) is DefaultModelLoader else chosen


@cache
def _loader() -> type:
    from sglang.srt.model_loader.loader import DefaultModelLoader

    class CofferModelLoader(DefaultModelLoader):  # type: ignore[misc]
        """SGLang's default loader, but for how safetensors files are read."""

        counter_before_loading_weights: float

        def __init__(self, load_config: Any, options: dict[str, Any]) -> None:
            super().__init__(load_config)
            self._coffer_options = options

        def _get_weights_iterator(self, source: Any, **known: Any) -> Iterator[tuple[str, Any]]:
            files, of_tensors = _files(self, source, known.get("resolved_source"))
            if not of_tensors:
                found: Iterator[tuple[str, Any]] = super()._get_weights_iterator(source, **known)
                return found
            draft = getattr(self.load_config, "draft_model_idx", None)
            if draft is not None:
                found = self._filter_mtp_weights(stand_ins(files, self._coffer_options), source.prefix, draft)
                return found
            if self.counter_before_loading_weights == 0.0:
                self.counter_before_loading_weights = time.perf_counter()
            return stand_ins(files, self._coffer_options, source.prefix)

    return CofferModelLoader


def _files(loader: Any, source: Any, resolved: Any) -> tuple[list[str], bool]:
    """The files of a source, and whether they are safetensors files. One of GLM's is not in the index, which SGLang knows."""
    if resolved is not None:
        return list(resolved.weight_files), resolved.use_safetensors
    from sglang.srt.model_loader import weight_utils

    folder, files, of_tensors = files_of(loader, source)
    add_missing = getattr(weight_utils, "maybe_add_mtp_safetensors", None)
    config = getattr(source, "model_config", None)
    if of_tensors and add_missing is not None and config is not None:
        files = add_missing(files, folder, "model.safetensors.index.json", config.hf_config)
    return files, of_tensors
