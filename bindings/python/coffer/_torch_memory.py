# SPDX-License-Identifier: Apache-2.0
"""Where torch tensors lie in memory, and which of them share it. A file holds every byte once, for one tensor."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from ._dtypes import FRAMEWORK
from ._errors import no_dtype, wrong_argument, wrong_type

# The dtypes that this version of torch has, and what it calls them.
DTYPES: dict[str, torch.dtype] = {
    dtype: getattr(torch, name) for dtype, name in FRAMEWORK.items() if hasattr(torch, name)
}
NAMES: dict[torch.dtype, str] = {dtype: str(dtype).removeprefix("torch.") for dtype in DTYPES.values()}


def storage_ptr(tensor: Tensor) -> int:
    """The address of a tensor's memory; 0 where it has none, as on the meta device."""
    try:
        return tensor.untyped_storage().data_ptr()
    except NotImplementedError:  # a sparse tensor
        return 0


def storage_size(tensor: Tensor) -> int:
    """Bytes of the memory that a tensor is a part of."""
    return tensor.untyped_storage().nbytes()


def end_ptr(tensor: Tensor) -> int:
    """The address after a tensor's last element in memory."""
    if tensor.numel() == 0:
        return tensor.data_ptr()
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    last = sum((length - 1) * stride for length, stride in steps)
    return tensor.data_ptr() + (last + 1) * tensor.element_size()


def is_complete(tensor: Tensor) -> bool:
    """Whether a tensor takes all of its memory."""
    return tensor.data_ptr() == storage_ptr(tensor) and tensor.nelement() * tensor.element_size() == storage_size(tensor)


def find_shared(tensors: Mapping[str, Tensor]) -> list[set[str]]:
    """The names in groups, one for each piece of memory; tensors without memory are left out."""
    groups: dict[tuple[torch.device, int, int], set[str]] = {}
    for name, tensor in tensors.items():
        if tensor.device.type == "meta":
            continue
        address = storage_ptr(tensor)
        size = storage_size(tensor) if address else 0
        if size:
            groups.setdefault((tensor.device, address, size), set()).add(name)
    return divide(list(groups.values()), tensors)


def divide(groups: list[set[str]], tensors: Mapping[str, Tensor]) -> list[set[str]]:
    """The groups, divided where tensors are in the same memory, but do not overlap."""
    found: list[set[str]] = []
    for names in groups:
        if len(names) == 1:
            found.append(names)
            continue
        end = -1
        for first, last, name in sorted((tensors[name].data_ptr(), end_ptr(tensors[name]), name) for name in names):
            if first >= end:
                found.append(set())
            found[-1].add(name)
            end = max(end, last)
    return found


def duplicates(
    tensors: Mapping[str, Tensor],
    refusal: Callable[[set[str]], Exception],
    preferred: Iterable[str] | None = None,
    discarded: Iterable[str] | None = None,
) -> dict[str, list[str]]:
    """For each group that shares memory the name to keep, and those to leave out.

    Kept is a tensor that takes all of the memory: one of `preferred`, else one that is not of `discarded`, the first in order of
    the names. Where no tensor of a group takes all of it, `refusal` makes the exception from the group's names.
    """
    liked, disliked = set(preferred or ()), set(discarded or ())
    found: dict[str, list[str]] = defaultdict(list)
    for names in find_shared(tensors):
        complete = {name for name in names if is_complete(tensors[name])}
        if not complete:
            raise refusal(names)
        kept = min(complete & liked or complete - disliked or complete)
        if len(names) > 1:
            found[kept] = sorted(names - {kept})
    return found


# ---- Modules ----------------------------------------------------------------------------------------------------------


def without_duplicates(
    module: torch.nn.Module, metadata: Mapping[str, str] | None, refusal: Callable[[set[str]], Exception]
) -> tuple[dict[str, Tensor], dict[str, str] | None]:
    """A module's tensors, one of each group that shares memory, and metadata that name it for the others."""
    tensors: dict[str, Tensor] = module.state_dict()
    found = dict(metadata) if metadata else {}
    for kept, others in duplicates(tensors, refusal).items():
        for name in others:
            found.setdefault(name, kept)
            del tensors[name]
    return tensors, found or None


def load_into(
    module: torch.nn.Module, tensors: dict[str, Tensor], refusal: Callable[[set[str]], Exception]
) -> tuple[set[str], list[str]]:
    """Loads tensors into a module; the names that it lacks then, and those that it does not have.

    A name that shares its memory with one that is there is not missing.
    """
    shared = duplicates(module.state_dict(), refusal, preferred=tensors.keys())
    result = module.load_state_dict(tensors, strict=False)
    missing, unexpected = set(result.missing_keys), list(result.unexpected_keys)
    for others in shared.values():
        for name in others:
            if name in missing:
                missing.remove(name)
            else:
                unexpected.append(name)
    return missing, unexpected


# ---- Bytes ------------------------------------------------------------------------------------------------------------


def packed(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.contiguous() for name, tensor in tensors.items()}


def materialized(tensor: Tensor) -> Tensor:
    """The tensor's values in the CPU's memory, as they are, not as they would be once conjugated or negated."""
    if tensor.device.type != "cpu":
        tensor = tensor.to("cpu")
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    return tensor.detach()


def described(tensors: Mapping[str, Tensor], kept: list[Any]) -> Iterator[tuple[str, str, tuple[int, ...], int, int]]:
    """Of each tensor its name, torch's name of its dtype, its shape, and where its bytes are; `kept` holds the memory."""
    for name, tensor in tensors.items():
        dtype = NAMES[tensor.dtype]
        held = materialized(tensor)
        kept.append(held)
        yield name, dtype, tuple(tensor.shape), held.data_ptr(), held.numel() * held.element_size()


def refuse_what_files_cannot_hold(tensors: Mapping[str, Any]) -> None:
    """Raises what is wrong with tensors that are to be saved."""
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise wrong_type(f"'{name}' is not a tensor of torch, but of the type {type(tensor).__name__}")
        if tensor.dtype not in NAMES:
            raise no_dtype(str(tensor.dtype), f"'{name}' is of {tensor.dtype}, for which files have no dtype")
        if tensor.device.type == "meta":
            raise wrong_argument(f"'{name}' is on the device meta, and has no values to save")
        if tensor.layout != torch.strided:
            raise wrong_argument(f"'{name}' is sparse, and files hold only dense tensors: save '{name}'.to_dense()")
    for names in find_shared(tensors):
        if len(names) > 1:
            listed = ", ".join(f"'{name}'" for name in sorted(names))
            raise wrong_argument(f"{listed} share memory: save_model writes one of them for all; clone() makes separate copies")
    for name, tensor in tensors.items():
        if not tensor.is_contiguous():
            raise wrong_argument(
                f"'{name}' is not contiguous: copy it with contiguous(), or save with contiguous=True, models with force_contiguous=True"
            )
