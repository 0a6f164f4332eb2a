# SPDX-License-Identifier: Apache-2.0
"""A file that one model's index forgets."""


def maybe_add_mtp_safetensors(files, folder, index, config):
    return [*files, *config]
