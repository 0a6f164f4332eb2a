# SPDX-License-Identifier: Apache-2.0
"""The default loader."""

import dataclasses
import glob
from collections.abc import Callable

from coffer.torch import load_file

from .weight_utils import multi_thread_safetensors_weights_iterator, pt_weights_iterator, safetensors_weights_iterator


class DefaultModelLoader:
    @dataclasses.dataclass
    class Source:
        model_or_path: str
        prefix: str = ""
        is_unused_weight: Callable[[str], bool] | None = None

    local_expert_ids = None

    def __init__(self, load_config):
        if set(load_config.model_loader_extra_config) - {"enable_multithread_load", "num_threads"}:
            raise ValueError("unexpected keys")
        self.load_config = load_config

    def _prepare_weights(self, folder):
        patterns = {"auto": ("consolidated*.safetensors", "*.safetensors", "*.bin"), "safetensors": ("*.safetensors",)}
        found = (glob.glob(f"{folder}/{pattern}") for pattern in patterns[self.load_config.load_format])
        files = next(filter(None, found))
        return files, files[0].endswith(".safetensors")

    def _get_weights_iterator(self, source):
        files, of_tensors = self._prepare_weights(source.model_or_path)
        if source.is_unused_weight is not None:
            files = [file for file in files if not all(map(source.is_unused_weight, load_file(file)))]
        if not of_tensors:
            weights = pt_weights_iterator(files)
        elif self.load_config.model_loader_extra_config.get("enable_multithread_load"):
            weights = multi_thread_safetensors_weights_iterator(files, self.load_config.use_tqdm_on_load, max_workers=8)
        else:
            weights = safetensors_weights_iterator(
                files,
                self.load_config.use_tqdm_on_load,
                self.load_config.safetensors_load_strategy,
                local_expert_ids=self.local_expert_ids,
            )
        return ((source.prefix + name, tensor) for name, tensor in weights)

    def load_weights(self, model, path):
        unused = getattr(model, "is_unused_checkpoint_weight", None)
        model.load(self._get_weights_iterator(self.Source(path, model.prefix, unused)))
