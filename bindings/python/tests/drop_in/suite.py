# SPDX-License-Identifier: Apache-2.0
"""What is tested of every framework that has no tests of its own. Frameworks do not all live in one process: a file, and a run of
pytest, for each."""

from __future__ import annotations

import inspect
import pydoc
from typing import Any

import numpy as np
import pytest
from both import BT_COFFER, BT_REFERENCE, COFFER, EVERY_DTYPE, REFERENCE, Raised, comparable, one_tensor, outcome

MATRIX = np.arange(6, dtype=np.float32).reshape(2, 3)


def assert_functions_have_their_parameters(names: list[str], theirs: Any, ours: Any) -> None:
    """Those of the reference come first; what Coffer adds comes after them, by keyword. The help of the module has them all."""
    shown = pydoc.plain(pydoc.render_doc(ours))
    for name in names:
        wanted, there = (list(inspect.signature(getattr(module, name)).parameters.values()) for module in (theirs, ours))
        first = there[: len(wanted)]
        assert [(each.name, each.default, each.kind) for each in first] == [(each.name, each.default, each.kind) for each in wanted], name
        assert all(each.kind is each.KEYWORD_ONLY for each in there[len(wanted) :]), name
        assert inspect.getdoc(getattr(ours, name)) and f"    {name}(" in shown, name


class Suite:
    """A subclass says which framework, and where it has more than the reference, or other errors."""

    name: str
    short: str
    reference_has_empty = True
    # Dtypes of which no tensor can be made.
    unknown: frozenset[str] = frozenset({"F4", "F6_E2M3", "F6_E3M2"})

    def make(self, array: np.ndarray) -> Any:
        """A tensor of an array."""
        raise NotImplementedError

    def both(self, call: Any) -> tuple[Any, Any]:
        return tuple(outcome(call, side.module(self.name)) for side in (REFERENCE, COFFER))

    def test_parameters(self):
        theirs, ours = (side.module(self.name) for side in (REFERENCE, COFFER))
        assert_functions_have_their_parameters(["save", "save_file", "load", "load_file"], theirs, ours)

    def ways(self, path, content):
        """Every way to get the tensor of a file."""
        opened = [
            lambda side, backend=backend: {"a": side.package.safe_open(path, self.short, backend=backend).get_tensor("a")}
            for backend in ("mmap", "pread")
        ]
        return [
            *opened,
            lambda side: side.module(self.name).load(content),
            lambda side: side.module(self.name).load_file(path),
            lambda side: side.module(self.name).load_file(path, backend="pread"),
            lambda side: side.package.safe_open(path, self.short).get_tensors(),
        ]

    @pytest.mark.parametrize(("dtype", "shape"), EVERY_DTYPE, ids=str)
    def test_load(self, dtype, shape, tmp_path):
        """What the reference loads, Coffer loads too; where the reference fails, Coffer has a tensor or a SafetensorError (F1)."""
        content = one_tensor(dtype, shape)
        (tmp_path / "x").write_bytes(content)
        outcomes = [outcome(way, COFFER) for way in self.ways(tmp_path / "x", content)]
        assert all(ours == outcomes[0] for ours in outcomes)
        if dtype in self.unknown:
            assert outcomes[0].kind == "SafetensorError" and dtype in outcomes[0].text
            return
        assert not isinstance(outcomes[0], Raised), outcomes[0]
        for way in self.ways(tmp_path / "x", content):
            theirs = outcome(way, REFERENCE)
            assert isinstance(theirs, Raised) or theirs == outcomes[0]

    @pytest.mark.parametrize(("dtype", "shape"), EVERY_DTYPE, ids=str)
    def test_save(self, dtype, shape, tmp_path):
        """Where the reference saves a tensor, Coffer writes the same bytes; and all that it loads, it can save.

        F2: some of the reference's put arrays into the caller's dict, in the place of tensors.
        """
        if dtype in self.unknown:
            return
        wanted = COFFER.module(self.name).load(one_tensor(dtype, shape))
        theirs, ours = self.both(lambda module: module.save(dict(wanted), {"k": "v"}))
        assert isinstance(ours, bytes), ours
        assert isinstance(theirs, Raised) or ours == theirs
        COFFER.module(self.name).save_file(wanted, tmp_path / "x", {"k": "v"})
        assert (tmp_path / "x").read_bytes() == ours
        assert outcome(COFFER.module(self.name).load, ours) == comparable(wanted)

    def test_files_cross(self, tmp_path):
        for writer, reader in ((REFERENCE, COFFER), (COFFER, REFERENCE)):
            wanted = {"a": self.make(MATRIX), "b": self.make(MATRIX.astype(np.int32)[0])}
            if self.reference_has_empty:
                wanted["e"] = self.make(MATRIX[:, :0])
            writer.module(self.name).save_file(dict(wanted), tmp_path / "x")
            assert comparable(reader.module(self.name).load_file(tmp_path / "x")) == comparable(wanted)

    @pytest.mark.parametrize("index", [0, -1, slice(0, 1), (slice(None), 1), Ellipsis, (Ellipsis, 0), slice(None, None, 2)], ids=repr)
    @pytest.mark.parametrize("backend", ["mmap", "pread"])
    def test_slices(self, index, backend, tmp_path):
        COFFER.module(self.name).save_file({"a": self.make(MATRIX)}, tmp_path / "x")
        ours = COFFER.package.safe_open(tmp_path / "x", self.short, backend=backend).get_slice("a")[index]
        assert comparable(ours) == comparable(self.make(MATRIX[index].copy()))

    def test_fails_as_the_reference_does(self, tmp_path):
        for call in (
            lambda module: module.load_file(tmp_path / "none"),
            lambda module: module.load_file(tmp_path / "none", backend="foo"),
            lambda module: module.load_file(b"x"),
            lambda module: module.load(bytearray(8)),
            lambda module: module.save({1: self.make(MATRIX)}),
            lambda module: module.save({"a": self.make(MATRIX)}, {"a": 1}),
            lambda module: module.save([self.make(MATRIX)]),
            lambda module: module.save(None),
            lambda module: module.save_file({"a": self.make(MATRIX)}, b"x"),
        ):
            theirs, ours = self.both(call)
            assert isinstance(ours, Raised) and ours == theirs


class BintensorsSuite:
    """The same for `.bt` files. A subclass says which framework."""

    name: str

    def make(self, array: np.ndarray) -> Any:
        """A tensor of an array."""
        raise NotImplementedError

    def every(self) -> dict[str, Any]:
        """A tensor of every dtype that the framework and the format have."""
        return {name: self.make(np.arange(8).reshape(2, 4).astype(dtype)) for name, dtype in self.dtypes().items()}

    def dtypes(self) -> dict[str, Any]:
        names = ("bool", "uint8", "int8", "int16", "uint16", "int32", "uint32", "float16", "float32")
        return {name: np.dtype(name) for name in names}

    def test_parameters(self):
        theirs, ours = (side.module(self.name) for side in (BT_REFERENCE, BT_COFFER))
        assert_functions_have_their_parameters(["save", "save_with_checksum", "save_file", "load", "load_file"], theirs, ours)

    def test_files_cross(self, tmp_path):
        for writer, reader in ((BT_REFERENCE, BT_COFFER), (BT_COFFER, BT_REFERENCE)):
            wanted = self.every()
            writer.module(self.name).save_file(dict(wanted), tmp_path / "x", {"k": "v"})
            assert comparable(reader.module(self.name).load_file(tmp_path / "x")) == comparable(wanted)
            assert comparable(reader.module(self.name).load((tmp_path / "x").read_bytes())) == comparable(wanted)

    def test_bytes_are_the_same(self):
        theirs, ours = (side.module(self.name) for side in (BT_REFERENCE, BT_COFFER))
        assert ours.save(self.every(), {"k": "v"}) == theirs.save(self.every(), {"k": "v"})
        assert ours.save_with_checksum(self.every()) == theirs.save_with_checksum(self.every())

    def test_the_caller_s_dict_stays_as_it_is(self, tmp_path):
        """P12: the reference puts arrays into it."""
        wanted = self.every()
        before = dict(wanted)
        BT_COFFER.module(self.name).save(wanted)
        BT_COFFER.module(self.name).save_file(wanted, tmp_path / "x")
        assert all(wanted[name] is before[name] for name in before)

    def test_bfloat16(self, tmp_path):
        """P10."""
        ours = BT_COFFER.module(self.name)
        wanted = ours.load(BT_COFFER.package.serialize({"a": {"dtype": "bfloat16", "shape": [2], "data": b"\x80\x3f\x00\x40"}}))
        assert str(wanted["a"].dtype).endswith("bfloat16")
        ours.save_file(wanted, tmp_path / "x")
        assert comparable(ours.load_file(tmp_path / "x")) == comparable(wanted)
        assert isinstance(outcome(lambda: BT_REFERENCE.module(self.name).load(ours.save(wanted))), Raised)

    def test_safe_open(self, tmp_path):
        BT_COFFER.module(self.name).save_file({"a": self.make(MATRIX)}, tmp_path / "x")
        for call in (
            lambda side: side.package.safe_open(tmp_path / "x", self.name).get_tensor("a"),
            lambda side: side.package.safe_open(tmp_path / "x", self.name).get_slice("a")[:, 1:],
            lambda side: side.module(self.name).load_file(tmp_path / "none"),
        ):
            theirs, ours = (outcome(call, side) for side in (BT_REFERENCE, BT_COFFER))
            assert ours == theirs
