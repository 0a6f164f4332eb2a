# SPDX-License-Identifier: Apache-2.0
"""The default loader, one other, and the choice."""

import dataclasses
import glob
from typing import Any

from coffer.torch import load_file

from ..configs.load_config import LoadFormat


class DummyModelLoader:
    def __init__(self, load_config):
        self.load_config = load_config


class DefaultModelLoader:
    @dataclasses.dataclass
    class Source:
        model_or_path: str
        revision: str | None
        prefix: str = ""
        fall_back_to_pt: bool = True
        model_config: Any = None

    counter_before_loading_weights = 0.0

    def __init__(self, load_config):
        if set(load_config.model_loader_extra_config) - {"num_threads"}:
            raise ValueError("unexpected keys")
        self.load_config = load_config

    def _prepare_weights(self, model_name_or_path, revision, fall_back_to_pt):
        files = glob.glob(f"{model_name_or_path}/*.safetensors")
        return model_name_or_path, files or glob.glob(f"{model_name_or_path}/*.bin"), bool(files)

    def _get_weights_iterator(self, source, *, resolved_source=None):
        _, files, of_tensors = self._prepare_weights(source.model_or_path, source.revision, source.fall_back_to_pt)
        for file in files:
            for name, tensor in load_file(file).items() if of_tensors else [("by itself", None)]:
                yield source.prefix + name, tensor

    @staticmethod
    def _filter_mtp_weights(weights, prefix, number):
        for name, tensor in weights:
            if f"layers.{number}." in name:
                yield prefix + name.replace(f"layers.{number}.", "layers.0."), tensor

    def load_model(self, model, path):
        model.load(self._get_weights_iterator(self.Source(path, None, prefix=model.prefix)))


def get_model_loader(load_config, model_config=None):
    if load_config.load_format == LoadFormat.DUMMY:
        return DummyModelLoader(load_config)
    return DefaultModelLoader(load_config)
