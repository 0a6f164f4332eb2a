# SPDX-License-Identifier: Apache-2.0
"""coffer.Plan: which tensors of a model, or parts of them, are wanted, and where they go."""

from __future__ import annotations

import json
import operator
import os
from collections.abc import Callable, Container, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _native
from ._errors import Error, WrongTypeError, wrong_argument, wrong_type
from ._file import File, open as open_file
from ._places import Item, Place, place_of

if TYPE_CHECKING:
    from ._native import Index

# Patterns, and along which dimension what they match is split; None: every rank takes the whole.
Rules = Mapping[str, int | None]


class PlannedItem(NamedTuple):
    """One thing that a plan wants: its dtype is that of the file, its shape that of the result."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    whole: bool  # all of the tensor


class Cost(NamedTuple):
    """What a plan costs."""

    items: int
    needed: int  # bytes of the results
    read: int  # bytes that are read for them, with gaps that cost less than another request
    requests: int  # reads


# As many as the library can name.
_MAX_DIMENSIONS = 1 << 31

# How an item was added, so that it can be added again: the method of the native plan, and its arguments.
_How = tuple[str, tuple[Any, ...]]


class Plan:
    """What is wanted of a model, and where it goes. Nothing is read until `coffer.load` carries it out, any number of times.

    source  a path, a URL, or what coffer.open gave

    `add`, `shard` and `all` return the plan, and read nothing. `out`, a numpy array, a torch tensor or a writable buffer, is where the
    result goes: of its dtype and shape, with any strides but negative ones; a buffer of bytes is as long as the result or
    longer. Without it the load makes the memory. The plan keeps `out`, and the load writes there until it is closed. Places may not
    overlap, which coffer.load checks.

    A name that the model does not have is a KeyError, an index out of range an IndexError. While a load carries it out, a plan cannot
    be changed, which is a ValueError. For one thread at a time.
    """

    def __init__(self, source: str | os.PathLike[str] | File) -> None:
        self._file = source if isinstance(source, File) else open_file(source)
        self._native = _native.Plan(self._file._model)
        self._how: list[_How] = []
        self._outs: dict[int, Any] = {}

    @property
    def file(self) -> File:
        """The model."""
        return self._file

    def add(self, name: str, index: Index | tuple[Index, ...] | None = None, *, out: Any = None) -> Plan:
        """Adds a tensor, or what an index takes of it by Python's rules: ints, slices with any step, an ellipsis, or a tuple of these,
        one for each dimension."""
        return self._added(("add", (name, index)), out)

    def shard(self, name: str, dim: int, rank: int, world: int, *, parts: Sequence[int] = (), out: Any = None) -> Plan:
        """Adds what rank `rank` of `world`, counted from 0, takes of a tensor that is split along dimension `dim`. An IndexError where
        that cannot be split evenly.

        Of a fused tensor, `parts` are the sizes of what it is fused of along that dimension, such as queries, keys and values; each
        of them is split by itself.
        """
        _check_rank(rank, world)
        return self._added(("shard", (name, dim, tuple(parts), rank, world)), out)

    def all(self, rank: int = 0, world: int = 1, *, rules: Rules | None = None) -> Plan:
        """Adds every tensor, as rank `rank` of `world` takes it.

        The first of the rules whose pattern matches a tensor's name says along which dimension it is split. None: the usual rules of
        transformers, by the names of their weights, which docs/loading.md lists. What no rule matches, and what cannot be split
        evenly, is taken whole.
        """
        _check_rank(rank, world)
        first = len(self._native)
        self._native.all(None if rules is None else _given(rules), rank, world)
        self._how += [("all", (rank, world))] * (len(self._native) - first)
        return self

    def __len__(self) -> int:
        return len(self._native)

    @property
    def items(self) -> list[PlannedItem]:
        """In the order in which they were added."""
        return [PlannedItem(*item) for item in self._native.items()]

    def cost(self, shard: int | None = None) -> Cost:
        """What the plan costs, of one of the model's files or of all. Nothing is read to know that."""
        if shard is not None and not 0 <= operator.index(shard) < len(self._file.shards):
            raise wrong_argument(f"there is no file {shard} in the model: they count from 0, and it has {len(self._file.shards)}")
        return Cost(*self._native.cost(shard))

    def to_json(self) -> str:
        """The plan as JSON: its items, and what it costs, of each file and of all."""
        paths = self._file.shards
        told = {
            "items": [item._asdict() for item in self.items],
            "cost": self.cost()._asdict(),
            "shards": [{"path": path, **self.cost(number)._asdict()} for number, path in enumerate(paths)],
        }
        return json.dumps(told, indent=2)

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a coffer.Plan cannot be pickled or copied: make one of the same path")

    def __repr__(self) -> str:
        cost = self.cost()
        return f"<coffer.Plan: {cost.items} items, {cost.needed} bytes>"

    def put(self, number: int, out: Any) -> None:
        """Says where the result of an item goes, as `out` of `add` does."""
        self._outs[number] = out

    def only(self, names: Container[str]) -> Plan:
        """The same plan without the tensors of other names."""
        plan = Plan(self._file)
        for number, (how, item) in enumerate(zip(self._how, self._native.items(), strict=True)):
            if item[0] in names:
                plan._added(self._alone(how, item), self._outs.get(number))
        return plan

    def put_into(self, plan: _native.Plan, place: Callable[[int], Place | None], items: Sequence[Item]) -> None:
        """Adds the items, which are given too, to a plan for one load, with their places."""
        for number, (how, item) in enumerate(zip(self._how, items, strict=True)):
            method, arguments = self._alone(how, item)
            where = place(number)
            options = {} if where is None else {"place": where.where, "device": where.device}
            getattr(plan, method)(*arguments, **options)

    def _added(self, how: _How, out: Any) -> Plan:
        method, arguments = how
        number = getattr(self._native, method)(*arguments)
        self._how.append(how)
        if out is not None:
            self._outs[number] = out
        return self

    def _alone(self, how: _How, item: Item) -> _How:
        """How an item of `all` would be added by itself: the dimension that is shorter than the tensor's is the one that is split."""
        if how[0] != "all":
            return how
        name, _, shape, _, whole = item
        if not whole:
            for dim, (length, all_of_it) in enumerate(zip(shape, self._file[name].shape, strict=True)):
                if length != all_of_it:
                    return ("shard", (name, dim, (), *how[1]))
        return ("add", (name,))

    def _places(self, items: Sequence[Item]) -> dict[int, Place]:
        """Where the results go that the caller has memory for."""
        return {number: _checked(items[number], out) for number, out in self._outs.items()}


def _check_rank(rank: int, world: int) -> None:
    if not 0 <= operator.index(rank) < operator.index(world):
        raise wrong_argument(f"there is no rank {rank} of {world}: ranks count from 0")


def _given(rules: Rules) -> list[tuple[str, int]]:
    """The rules as the extension has them."""
    if not isinstance(rules, Mapping):
        raise wrong_type(f"rules are a mapping of patterns to dimensions, not {type(rules).__name__}")
    for pattern, dim in rules.items():
        if not isinstance(pattern, str) or not (dim is None or isinstance(dim, int)):
            raise wrong_type(f"a rule is a pattern and a dimension or None, not {pattern!r}: {dim!r}")
        if dim is not None and not 0 <= dim < _MAX_DIMENSIONS:
            raise wrong_argument(f"the rule for '{pattern}' has the dimension {dim}: they count from 0, and None splits nothing")
    return [(pattern, -1 if dim is None else dim) for pattern, dim in rules.items()]


def _checked(item: Item, out: Any) -> Place:
    name, dtype, shape, _, _ = item
    try:
        return place_of(out, dtype, shape)
    except Error as error:
        kind = wrong_type if isinstance(error, WrongTypeError) else wrong_argument
        raise kind(f"'{name}' cannot go to its place: {error.message}") from error


def plan_of(source: str | os.PathLike[str] | File | Plan) -> Plan:
    """A plan, or that of everything."""
    return source if isinstance(source, Plan) else Plan(source).all()
