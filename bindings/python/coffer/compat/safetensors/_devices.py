# SPDX-License-Identifier: Apache-2.0
"""Names of devices, as `safe_open` takes them."""

from __future__ import annotations

from .. import SafetensorError

_NUMBERED = frozenset({"cuda", "npu", "xpu", "xla", "mlu", "hpu", "musa"})
_SINGLE = frozenset({"cpu", "mps"})


def device(value: object) -> str | int:
    """The device that `value` names, in full ("cuda:0"); an int stays one."""
    if value is None:
        return "cpu"
    if isinstance(value, int) and 0 <= value < 2**64:
        return int(value)
    if not isinstance(value, str) or not _is_text(value):
        raise SafetensorError(f"device {value!r} is invalid")
    kind, colon, number = value.partition(":")
    if value in _SINGLE:
        return value
    if kind == "mps":
        return kind
    if kind not in _NUMBERED:
        raise SafetensorError(f"device {value} is invalid")
    return f"{kind}:{_number(number) if colon else 0}"


def _number(text: str) -> int:
    if not text:
        raise ValueError("cannot parse integer from empty string")
    if not (text.isascii() and text.isdigit()):
        raise ValueError("invalid digit found in string")
    if int(text) >= 2**64:
        raise ValueError("number too large to fit in target type")
    return int(text)


def _is_text(value: str) -> bool:
    """Whether it is without halves of surrogate pairs."""
    return value.encode(errors="replace").decode() == value
