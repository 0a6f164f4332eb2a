# SPDX-License-Identifier: Apache-2.0
"""The iterators over files."""

from coffer.torch import load_file

from .ep_weight_filter import should_skip_weight


def enable_tqdm(use_tqdm_on_load):
    return use_tqdm_on_load


def safetensors_weights_iterator(
    hf_weights_files, use_tqdm_on_load, safetensors_load_strategy=None, local_expert_ids=None
):
    for file in hf_weights_files:
        for name, tensor in load_file(file).items():
            if not should_skip_weight(name, local_expert_ids):
                yield name, tensor


def multi_thread_safetensors_weights_iterator(hf_weights_files, use_tqdm_on_load, max_workers=4):
    yield from safetensors_weights_iterator(hf_weights_files, use_tqdm_on_load)


def pt_weights_iterator(hf_weights_files):
    yield "by itself", None
