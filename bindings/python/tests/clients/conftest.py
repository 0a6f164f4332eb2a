# SPDX-License-Identifier: Apache-2.0
"""Real users of safetensors, run on the drop-in: python -m coffer.drop_in -m pytest clients. Nothing is fetched."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"

import safetensors

assert "coffer" in (safetensors.__file__ or ""), "run these by 'python -m coffer.drop_in -m pytest'"
