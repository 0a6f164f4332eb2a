# SPDX-License-Identifier: Apache-2.0
"""Fields of Protocol Buffers that are written by hand."""


def varint(value, least=1):
    """With more bytes than it needs, if that is asked for."""
    out = b""
    while value > 127 or len(out) + 1 < least:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def wire(number, value, kind=None):
    """A field: of an integer, of bytes or of a text, or of the bytes of a number of a certain kind."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value % 2**64)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | (2 if kind is None else kind)) + (varint(len(value)) if kind is None else b"") + value
