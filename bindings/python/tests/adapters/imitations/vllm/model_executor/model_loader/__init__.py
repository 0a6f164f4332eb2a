# SPDX-License-Identifier: Apache-2.0
"""The configuration, and the registry."""

import dataclasses

from .default_loader import DefaultModelLoader

registered = []
_loaders = {"auto": DefaultModelLoader, "safetensors": DefaultModelLoader}


@dataclasses.dataclass
class LoadConfig:
    load_format: str = "auto"
    model_loader_extra_config: dict = dataclasses.field(default_factory=dict)
    safetensors_load_strategy: str | None = None
    use_tqdm_on_load: bool = False


def register_model_loader(name):
    def register(loader):
        assert issubclass(loader, DefaultModelLoader)
        registered.append(name)
        _loaders[name] = loader
        return loader

    return register


def get_model_loader(config):
    return _loaders[config.load_format](config)
