# SPDX-License-Identifier: Apache-2.0
"""SGLang: `--load-format coffer`, or, with COFFER_LOAD_AUTO=1, in place of the default.

SGLang calls `register` in each of its processes, by the entry point group "sglang.srt.plugins", and then applies the hooks. Its own
models, loaders and weight loaders run as they are, and they choose the files; what reads these gives lazy tensors.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from ._engines import NAME, arguments_of, is_there, options_of, options_of_reading, reading, iterate_lazily, takes_auto, warn

_FORMAT = "sglang.srt.configs.load_config.LoadConfig._verify_load_format"
_LOADERS = "sglang.srt.model_loader.loader"
# What iterates over safetensors files for the default loader, in the same module.
_ITERATORS = ("safetensors_weights_iterator", "buffered_multi_thread_safetensors_weights_iterator")
# The formats of which the default loader reads safetensors files by these.
_TAKEN = ("auto", "safetensors", "mistral")
# By which the loader's extra configuration says that Coffer is to read, where the format has to say something else.
_ASKED = "coffer"


@cache
def register() -> None:
    """Makes the load format known. The second time, and without SGLang, it does nothing."""
    if not is_there("sglang"):
        return
    from sglang.srt.arg_groups.resolution_hooks import register_resolution_hook
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType
    from sglang.srt.server_args import add_load_format_choices

    add_load_format_choices([NAME])
    register_resolution_hook("handle_load_format")(_resolve)
    HookRegistry.register(_FORMAT, _verify, HookType.AROUND)
    HookRegistry.register(f"{_LOADERS}.get_model_loader", _choose, HookType.AROUND)
    HookRegistry.register(f"{_LOADERS}.DefaultModelLoader._get_weights_iterator", _load, HookType.AROUND)
    for name in _ITERATORS:
        HookRegistry.register(f"{_LOADERS}.{name}", _iterate, HookType.AROUND)


def _resolve(server_args: Any, previous: Callable[[Any], Any]) -> None:
    """Where the format is "auto", SGLang looks at the model's files, and takes another one for GGUF, for Mistral's own format and for
    remote stores. So it does here. What processes are told is the format that it has chosen, and that Coffer was asked for."""
    from sglang.srt.arg_groups.model_override_base import resolving_view
    from sglang.srt.arg_groups.overrides import declare_resolution

    view = resolving_view(server_args)
    if view.load_format != NAME:
        previous(server_args)
        return
    declare_resolution(server_args, NAME, load_format="auto")
    previous(server_args)
    if view.load_format == "auto":
        declare_resolution(server_args, NAME, load_format=NAME)
    elif view.load_format in _TAKEN:
        extra = view.model_loader_extra_config or {}
        told = json.loads(extra) if isinstance(extra, str) else dict(extra)
        declare_resolution(server_args, NAME, model_loader_extra_config=json.dumps(told | {_ASKED: True}))
    else:
        warn(f"the format of this model is {view.load_format}, which SGLang reads by itself, and not Coffer")


def _verify(original: Callable[[Any], None], config: Any) -> None:
    """The format has to be one of SGLang's enumeration, by which it chooses much else: it is the default one. SGLang makes loaders
    of the configuration in several places, of which each refuses options that it does not know."""
    format = config.load_format.lower() if isinstance(config.load_format, str) else None
    if format == NAME:
        config.load_format = "auto"
    extra = dict(config.model_loader_extra_config or {})
    asked = extra.pop(_ASKED, False) is True
    if format == NAME or (format in _TAKEN and (asked or takes_auto())):
        config.coffer_options, config.model_loader_extra_config = options_of(extra)
    original(config)


def _choose(original: Callable[..., Any], load_config: Any, *args: Any, **kwargs: Any) -> Any:
    """The loader that SGLang takes for a model, which is to read by Coffer if it is the default one. It has to be of that very
    class. Those that SGLang makes elsewhere, as for LoRA, keep tensors for good, so they get ordinary ones."""
    from sglang.srt.model_loader.loader import DefaultModelLoader

    loader = original(load_config, *args, **kwargs)
    options = getattr(load_config, "coffer_options", None)
    if type(loader) is DefaultModelLoader and load_config.load_format in _TAKEN:
        loader.coffer_options = options
    elif options is not None:
        warn(f"SGLang's {type(loader).__name__} reads the weights, and not Coffer")
    return loader


def _load(original: Callable[..., Any], loader: Any, *args: Any, **kwargs: Any) -> Any:
    options = getattr(loader, "coffer_options", None)
    if options is None:
        return original(loader, *args, **kwargs)
    if {"enable_multithread_load", "num_threads"} & loader.load_config.model_loader_extra_config.keys():
        warn("enable_multithread_load and num_threads are ignored: Coffer's own option is threads")
    with reading(options):
        return original(loader, *args, **kwargs)


def _iterate(original: Callable[..., Iterator[tuple[str, Any]]], *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
    """The same for other loaders; lazy tensors where `_load` asks for them."""
    options = options_of_reading()
    if options is None:
        return original(*args, **kwargs)
    import torch

    told = arguments_of(original, args, kwargs)
    if told.get("prefetch"):
        warn("weight_loader_prefetch_checkpoints is ignored: Coffer reads ahead what is needed")
    if told.get("drop_cache_after_load"):
        warn("weight_loader_drop_cache_after_load is ignored")
    first = not torch.distributed.is_initialized() or torch.distributed.get_rank() == 0
    return iterate_lazily(told["hf_weights_files"], options, bar=first)
