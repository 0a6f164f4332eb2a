# SPDX-License-Identifier: Apache-2.0
"""The default loader, others, and the choice."""

import dataclasses
import glob
from typing import Any

from ..configs.load_config import LoadFormat
from .weight_utils import (
    buffered_multi_thread_safetensors_weights_iterator,
    maybe_add_mtp_safetensors,
    pt_weights_iterator,
    safetensors_weights_iterator,
)


class DummyModelLoader:
    def __init__(self, load_config):
        self.load_config = load_config


class DefaultModelLoader:
    @dataclasses.dataclass
    class Source:
        model_or_path: str
        prefix: str = ""
        model_config: Any = None

    def __init__(self, load_config):
        if set(load_config.model_loader_extra_config) - {"enable_multithread_load", "num_threads"}:
            raise ValueError("unexpected keys")
        self.load_config = load_config

    def _prepare_weights(self, folder):
        patterns = {"auto": ("*.safetensors", "*.bin"), "safetensors": ("*.safetensors",)}
        found = (glob.glob(f"{folder}/{pattern}") for pattern in patterns[self.load_config.load_format.value])
        files = next(filter(None, found))
        return files, files[0].endswith(".safetensors")

    def _get_weights_iterator(self, source, *, resolved_source=None):
        if resolved_source is None:
            files, of_tensors = self._prepare_weights(source.model_or_path)
            if of_tensors and source.model_config is not None:
                files = maybe_add_mtp_safetensors(files, source.model_or_path, "index", source.model_config.hf_config)
        else:
            files, of_tensors = list(resolved_source.weight_files), resolved_source.use_safetensors
        if not of_tensors:
            weights = pt_weights_iterator(files)
        elif self.load_config.model_loader_extra_config.get("enable_multithread_load", True):
            weights = buffered_multi_thread_safetensors_weights_iterator(files, 8, **self.load_config.server)
        else:
            weights = safetensors_weights_iterator(files, **self.load_config.server)
        if self.load_config.draft_model_idx is not None:
            return self._filter_mtp_weights(weights, source.prefix, self.load_config.draft_model_idx)
        return ((source.prefix + name, tensor) for name, tensor in weights)

    @staticmethod
    def _filter_mtp_weights(weights, prefix, number):
        for name, tensor in weights:
            if f"layers.{number}." in name:
                yield prefix + name.replace(f"layers.{number}.", "layers.0."), tensor

    def load_model(self, model, path):
        model.load(self._get_weights_iterator(self.Source(path, model.prefix)))


class ModelOptModelLoader(DefaultModelLoader):
    pass


def get_model_loader(load_config, model_config=None):
    if load_config.load_format == LoadFormat.DUMMY:
        return DummyModelLoader(load_config)
    if model_config == "modelopt":
        return ModelOptModelLoader(load_config)
    return DefaultModelLoader(load_config)
