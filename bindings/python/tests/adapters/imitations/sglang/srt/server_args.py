# SPDX-License-Identifier: Apache-2.0
"""What the command line takes."""

LOAD_FORMAT_CHOICES = ["auto", "safetensors"]


def add_load_format_choices(choices):
    LOAD_FORMAT_CHOICES.extend(choices)
