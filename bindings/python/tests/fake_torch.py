# SPDX-License-Identifier: Apache-2.0
"""A torch of which there is no more than loading to a device uses, on the driver that tests/fakes has in place of CUDA's: its memory
cannot be read by the host, copies are late, and mistakes are noted. `install` puts it where torch is imported from."""

from __future__ import annotations

import ctypes
import math
import sys
import types
from typing import Any

DRIVER = ctypes.CDLL("libcuda.so.1")
_U64 = ctypes.c_uint64


def call(name: str, *arguments: Any) -> None:
    code = getattr(DRIVER, name)(*arguments)
    assert code == 0, f"{name}: {code}"


class Counts(ctypes.Structure):
    _fields_ = [
        ("memory", ctypes.c_size_t), ("bytes", _U64), ("peak", _U64), ("streams", ctypes.c_size_t), ("events", ctypes.c_size_t),
        ("registered", ctypes.c_size_t), ("contexts", ctypes.c_size_t), ("copies", ctypes.c_size_t), ("boxes", ctypes.c_size_t),
        ("pageable", ctypes.c_size_t), ("calls_after_lost", ctypes.c_size_t),
    ]  # fmt: skip


class Control(ctypes.Structure):
    """The beginning of fake_control_table."""

    _fields_ = [
        ("reset", ctypes.CFUNCTYPE(None, ctypes.c_char_p)),
        ("break_call", ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_uint, ctypes.c_int)),
        ("calls", ctypes.CFUNCTYPE(ctypes.c_uint, ctypes.c_char_p)),
        ("mistake", ctypes.CFUNCTYPE(ctypes.c_char_p)),
        ("counts", ctypes.CFUNCTYPE(Counts)),
    ]


DRIVER.fake_control.restype = ctypes.POINTER(Control)
control = DRIVER.fake_control().contents


class Dtype:
    def __init__(self, name: str, itemsize: int) -> None:
        self.name, self.itemsize = name, itemsize

    def __str__(self) -> str:
        return f"torch.{self.name}"


class Device:
    def __init__(self, name: Any) -> None:
        kind, _, number = f"cuda:{name}".partition(":") if isinstance(name, int) else str(name).partition(":")
        self.type, self.index = kind, int(number) if number else None

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"


class Block:
    """Memory of the device, until nobody has it."""

    def __init__(self, size: int) -> None:
        address = ctypes.c_size_t()
        call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        self.address = address.value

    def __del__(self) -> None:
        call("cuMemFree_v2", ctypes.c_size_t(self.address))


class Tensor:
    def __init__(self, block: Block | None, address: int, dtype: Dtype, shape: tuple[int, ...]) -> None:
        self.block, self.address, self.dtype, self.shape = block, address, dtype, tuple(shape)
        self.device = Device("cuda:0")

    def data_ptr(self) -> int:
        return self.address

    def element_size(self) -> int:
        return self.dtype.itemsize

    def stride(self) -> tuple[int, ...]:
        return tuple(math.prod(self.shape[i + 1 :]) for i in range(len(self.shape)))

    def is_contiguous(self) -> bool:
        return True

    def is_conj(self) -> bool:
        return False

    is_neg = is_conj

    def view(self, to: Dtype) -> Tensor:
        return Tensor(self.block, self.address, to, (self.shape[0] * self.dtype.itemsize // to.itemsize,))

    def as_strided(self, shape: tuple[int, ...], strides: tuple[int, ...], first: int) -> Tensor:
        found = Tensor(self.block, self.address + first * self.dtype.itemsize, self.dtype, shape)
        assert strides == found.stride()
        return found

    def tobytes(self) -> bytes:
        """Its bytes when the current stream comes to it."""
        size = math.prod(self.shape) * self.dtype.itemsize
        bytes_of = ctypes.create_string_buffer(size + 1)
        if size:
            call("cuMemcpyDtoHAsync_v2", bytes_of, ctypes.c_size_t(self.address), ctypes.c_size_t(size), _STREAM)
            call("cuStreamSynchronize", _STREAM)
        return bytes_of.raw[:size]


def empty(size: int, *, dtype: Dtype, device: Any) -> Tensor:
    assert str(Device(device)) in ("cuda", "cuda:0")
    block = Block(size) if size else None
    return Tensor(block, 0 if block is None else block.address, dtype, (size,))


_DEVICE = ctypes.c_int()
_CONTEXT = ctypes.c_void_p()
_STREAM = ctypes.c_void_p()


def install() -> None:
    """From now on `import torch` has this, with a stream of its own on device 0."""
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(_DEVICE), 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(_CONTEXT), _DEVICE)
    call("cuCtxPushCurrent_v2", _CONTEXT)
    call("cuStreamCreate", ctypes.byref(_STREAM), 1)
    torch: Any = types.ModuleType("torch")
    torch.__version__ = "0"
    torch.Tensor, torch.device, torch.empty = Tensor, Device, empty
    for name, size in (("uint8", 1), ("float16", 2), ("float32", 4), ("int64", 8), ("bfloat16", 2)):
        setattr(torch, name, Dtype(name, size))
    torch.version = types.SimpleNamespace(hip=None)
    stream = types.SimpleNamespace(cuda_stream=_STREAM.value)
    torch.cuda = types.SimpleNamespace(is_available=lambda: True, current_device=lambda: 0, current_stream=lambda device: stream)
    torch._C = types.SimpleNamespace()
    torch.utils = types.ModuleType("torch.utils")
    torch.utils.dlpack = types.ModuleType("torch.utils.dlpack")
    torch.utils.dlpack.from_dlpack = None
    sys.modules.update({"torch": torch, "torch.utils": torch.utils, "torch.utils.dlpack": torch.utils.dlpack})


def end() -> None:
    """What it holds itself is given back."""
    call("cuStreamDestroy_v2", _STREAM)
    call("cuCtxPopCurrent_v2", ctypes.byref(_CONTEXT))
    call("cuDevicePrimaryCtxRelease_v2", _DEVICE)
