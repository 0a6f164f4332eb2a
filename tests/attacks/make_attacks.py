#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes files that are meant to mislead, crash or fill a reader of checkpoints.

    tests/attacks/make_attacks.py FOLDER

Nothing in them does harm when it is run: what a loader would call is `print`, or would not be found. The tests make them in memory
(`attacks()`) and expect each to be refused, or reported as what it is.
"""

import importlib
import pathlib
import sys

from attacks_flax import flax_attacks, flax_chunked, flax_file
from attacks_gguf import GGUF_KEYS, GgufTensor, gguf_attacks, gguf_file, gguf_good
from attacks_hdf5 import hdf5_attacks, hdf5_chunk_attacks, hdf5_one, hdf5_tree
from attacks_numpy import npy, npy_attacks, npz_attacks, program_attacks
from attacks_onnx import onnx_attacks, onnx_file, onnx_numbers, onnx_tensor
from attacks_pickle import graph_attacks, pickle_attacks, polyglot_attacks, script_attacks
from attacks_stream import stream_attacks, stream_file
from attacks_tar import nemo_attacks, nemo_file, pax, tar_attacks, tar_file, tar_member, tar_parts
from attacks_tensor import tensor_attacks
from attacks_tf import tf_attacks
from attacks_zip import zip_attacks
from pickles_by_hand import checkpoint
from wire_by_hand import varint, wire
from zips_by_hand import Archive, Member, deflated, members, torch_file

# A file attacks_NAME.py that says all of a reader by itself needs no line here. It has ENDING, of the names of its files; attacks()
# and good_files(), which yield names and bytes; and SENTENCES, what refusals say of some of the attacks.
MODULES = [module for path in sorted(pathlib.Path(__file__).parent.glob("attacks_*.py"))
           if hasattr(module := importlib.import_module(path.stem), "attacks")]  # fmt: skip


def kind_of(module):
    return module.__name__.removeprefix("attacks_")


def attacks():
    """(name, bytes) of every file."""
    for module in MODULES:
        for called, bytes_ in module.attacks():
            yield f"{kind_of(module)}-{called}.{module.ENDING}", bytes_
    for kind, ending, make in (("zip", "pt", zip_attacks), ("pickle", "pkl", pickle_attacks), ("graph", "pt", graph_attacks),
                               ("tensor", "pt", tensor_attacks), ("npy", "npy", npy_attacks), ("npz", "npz", npz_attacks),
                               ("program", "pt2", program_attacks), ("tar", "tar", tar_attacks), ("nemo", "nemo", nemo_attacks),
                               ("stream", "pt", stream_attacks), ("polyglot", "bin", polyglot_attacks),
                               ("script", "pt", script_attacks), ("gguf", "gguf", gguf_attacks),
                               ("flax", "msgpack", flax_attacks), ("onnx", "onnx", onnx_attacks),
                               ("hdf5", "h5", hdf5_attacks), ("hdf5-chunk", "h5", hdf5_chunk_attacks), ("tf", "index", tf_attacks)):
        for called, bytes_ in make():
            yield f"{kind}-{called}.{ending}", bytes_


def good_files():
    """What the attacks are changes of: each converts."""
    for module in MODULES:
        for called, bytes_ in module.good_files():
            yield f"{called}.{module.ENDING}", bytes_
    yield "good.pt", torch_file()
    yield "good-deflated.pt", Archive([Member(b"a/data.pkl", **deflated(checkpoint())), *members()[1:]]).bytes()
    yield "good-stream.pt", stream_file()
    storages, tensors, pickle = tar_parts()
    yield "good.tar", tar_file(tar_member(b"storages", storages), tar_member(b"tensors", tensors), pickle)
    yield "good-pax.tar", tar_file(tar_member(b"x", pax(path=b"storages", size=b"%d" % len(storages)), b"x"),
                                   tar_member(b"storages", storages, size=0), tar_member(b"tensors", tensors), pickle)
    yield "good-base-256.tar", tar_file(tar_member(b"storages", storages, size=b"\x80" + len(storages).to_bytes(11, "big")),
                                        tar_member(b"tensors", tensors), pickle)
    yield "good.nemo", nemo_file()
    yield "good.gguf", gguf_good()
    yield "good-big-endian.gguf", gguf_file(GGUF_KEYS, [GgufTensor("w", (3, 2), 0, bytes(24))], order=">")
    yield "good-aligned.gguf", gguf_file((("general.alignment", 4, 1024),), [GgufTensor("w", (3, 2), 0, bytes(24))], alignment=1024)
    yield "good.msgpack", flax_file()
    yield "good-chunked.msgpack", flax_file({"w": flax_chunked()})
    yield "good.h5", bytes(hdf5_one().bytes)
    yield "good-chunked.h5", hdf5_tree(((24, 0, (0, 0), 0),), chunk=(3, 2))
    yield "good.onnx", onnx_file()
    yield "good-numbers.onnx", onnx_numbers(b"".join(varint(i % 2**64) for i in (-1, 2**31 - 1, -2**31, 0, 127, 128)))
    yield "good-single-numbers.onnx", onnx_file(onnx_tensor("w", (3,), 1, None, wire(4, bytes(4), 5) * 3))
    yield "good.npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n")
    yield "good.npz", Archive([Member(b"x.npy", npy("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3, )}"))]).bytes()


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for called, bytes_ in (*attacks(), *good_files()):
        (folder / called.replace("^", "")).write_bytes(bytes_)


if __name__ == "__main__":
    main()
