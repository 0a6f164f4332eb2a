# SPDX-License-Identifier: Apache-2.0
"""The registry, and the default loader."""

import dataclasses
import glob

from coffer.torch import load_file

registered = []
_loaders = {}


@dataclasses.dataclass
class LoadConfig:
    load_format: str = "auto"
    model_loader_extra_config: dict = dataclasses.field(default_factory=dict)
    safetensors_load_strategy: str | None = None


def register_model_loader(name):
    def register(loader):
        assert issubclass(loader, DefaultModelLoader)
        registered.append(name)
        _loaders[name] = loader
        return loader

    return register


def get_model_loader(config):
    return _loaders[config.load_format](config)


class DefaultModelLoader:
    @dataclasses.dataclass
    class Source:
        model_or_path: str
        revision: str | None
        subfolder: str | None = None
        prefix: str = ""
        fall_back_to_pt: bool = True
        allow_patterns_overrides: list | None = None

    counter_before_loading_weights = 0.0

    def __init__(self, load_config):
        if set(load_config.model_loader_extra_config) - {"num_threads"}:
            raise ValueError("unexpected keys")
        self.load_config = load_config

    def _prepare_weights(self, model_name_or_path, subfolder, revision, fall_back_to_pt, allow_patterns_overrides):
        if self.load_config.load_format not in ("auto", "safetensors"):
            raise ValueError("unknown format")
        files = glob.glob(f"{model_name_or_path}/*.safetensors")
        return model_name_or_path, files or glob.glob(f"{model_name_or_path}/*.bin"), bool(files), "index"

    def _get_weights_iterator(self, source):
        _, files, of_tensors, _ = self._prepare_weights(
            source.model_or_path, source.subfolder, source.revision, source.fall_back_to_pt, source.allow_patterns_overrides
        )
        for file in files:
            for name, tensor in load_file(file).items() if of_tensors else [("by itself", None)]:
                yield source.prefix + name, tensor

    def load_weights(self, model, model_config):
        model.load(self._get_weights_iterator(self.Source(model_config, None, prefix=model.prefix)))


_loaders.update({"auto": DefaultModelLoader, "safetensors": DefaultModelLoader})
