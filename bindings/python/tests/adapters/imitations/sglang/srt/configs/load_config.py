# SPDX-License-Identifier: Apache-2.0
"""The formats, which are an enumeration that knows no others."""

import enum
from dataclasses import dataclass, field


class LoadFormat(str, enum.Enum):
    AUTO = "auto"
    SAFETENSORS = "safetensors"
    DUMMY = "dummy"


@dataclass
class LoadConfig:
    load_format: str | LoadFormat = LoadFormat.AUTO
    model_loader_extra_config: dict = field(default_factory=dict)
    draft_model_idx: int | None = None
    server: dict = field(default_factory=dict)  # what the server's own options say; elsewhere in the real one

    def __post_init__(self):
        self._verify_load_format()

    def _verify_load_format(self):
        self.load_format = LoadFormat(self.load_format.lower())
