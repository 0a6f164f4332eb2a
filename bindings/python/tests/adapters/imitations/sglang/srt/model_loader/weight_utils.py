# SPDX-License-Identifier: Apache-2.0
"""A file that one model's index forgets, and the iterators over files."""

from coffer.torch import load_file


def maybe_add_mtp_safetensors(files, folder, index, config):
    return [*files, *config]


def safetensors_weights_iterator(hf_weights_files, prefetch=False, drop_cache_after_load=False):
    for file in hf_weights_files:
        yield from load_file(file).items()


def buffered_multi_thread_safetensors_weights_iterator(
    hf_weights_files, max_workers, prefetch=False, drop_cache_after_load=False
):
    yield from safetensors_weights_iterator(hf_weights_files)


def pt_weights_iterator(hf_weights_files):
    yield "by itself", None
