# SPDX-License-Identifier: Apache-2.0
"""Makes the files of the ranks of a training, as DeepSpeed (ZeRO) and FSDP save them, right ones and ones that contradict each other.
Each is a dict: name of a file → bytes. The whole is always "w", [4, 6] of F32, whose elements are 0, 1, 2, ….
"""

import struct

from make_shards import attributes, floats, list_of, new, number, size_of, steps_of
from pickles_by_hand import call, dict_of, name, storage, stream, tensor, text, tuple_of
from zips_by_hand import Archive, Member

SHAPE = (4, 6)
COUNT = 24


def archive(pickle, *storages):
    return Archive([Member(b"a/data.pkl", stream(pickle)), Member(b"a/byteorder", b"little"),
                    *(Member(b"a/data/%d" % i, data) for i, data in enumerate(storages)), Member(b"a/version", b"3\n")]).bytes()


def vector(count, key="0", kind="FloatStorage", step=1):
    return tensor((count,), (step,), 0, storage(key, count * step, kind))


# ---- DeepSpeed ----------------------------------------------------------------------------------------------------------


def zero_optim(values, *, stage=2, ranks=2, group=None, more=(), **members):
    """One rank's file of the optimizer, with one group."""
    data = struct.pack(f"<{len(values)}f", *values)
    key = "fp32_flat_groups" if stage == 3 else "single_partition_of_fp32_groups"
    state = {"zero_stage": number(stage), "partition_count": number(ranks), key: list_of(vector(len(values)) if group is None else group),
             **members}
    return archive(dict_of((text("optimizer_state_dict"), dict_of(*((text(each), value) for each, value in state.items()), *more))), data)


def zero_model(shapes=None, **members):
    shapes = list_of(dict_of((text("w"), size_of(SHAPE)))) if shapes is None else shapes
    state = {"module": dict_of(), "buffer_names": b"]", "param_shapes": shapes, "ds_version": text("0.18"), **members}
    return archive(dict_of(*((text(each), value) for each, value in state.items())))


def zero(*, stage=2, ranks=2, values=None, model=None, optim=None, prefix=""):
    """Stages 1 and 2: the partitions of the ranks follow each other, with padding at the end; stage 3: each has a part of each
    parameter."""
    each = -(-COUNT // ranks) if stage == 3 else -(-COUNT // (2 * ranks)) * 2
    numbers = [float(i) for i in range(COUNT)] if values is None else values
    numbers = numbers + [0.0] * (each * ranks - len(numbers)) if values is None else numbers
    files = {}
    for rank in range(ranks):
        part = numbers[rank * each : (rank + 1) * each]
        made = zero_optim(part, stage=stage, ranks=ranks) if optim is None else optim(rank, part)
        files[f"{prefix}zero_pp_rank_{rank}_mp_rank_00_optim_states.pt"] = made
        if stage == 3:
            files[f"zero_pp_rank_{rank}_mp_rank_00_model_states.pt"] = zero_model() if model is None else model
    if stage < 3:
        files["mp_rank_00_model_states.pt"] = zero_model() if model is None else model
    return files


def zero_good():
    """(name, files)."""
    yield "stage-1", zero(stage=1)
    yield "stage-2", zero()
    yield "stage-2-padded", zero(ranks=5)
    yield "stage-2-bf16", zero(prefix="bf16_")
    yield "stage-3", zero(stage=3)
    yield "stage-3-padded", zero(stage=3, ranks=5)
    yield "one-rank", zero(ranks=1)
    yield "counts-of-groups", zero(optim=lambda _, part: zero_optim(part, partition_count=list_of(number(2), number(2))))
    yield "no-experts", zero(model=zero_model(num_experts=b"]", mp_world_size=number(1)))


def zero_attacks():
    """(name, files, status, what the message says)."""
    def optim(**fields):
        return zero(optim=lambda _, part: zero_optim(part, **fields))

    def shapes(*shape):
        return zero_model(list_of(dict_of((text("w"), size_of(shape)))))

    yield "stage-4", optim(zero_stage=number(4)), "PICKLE", "no stage"
    yield "stage-none", optim(zero_stage=b"N"), "PICKLE", "no stage"
    yield "ranks-0", optim(partition_count=number(0)), "PICKLE", "no number of ranks"
    yield "ranks-negative", optim(partition_count=number(-2)), "PICKLE", "no number of ranks"
    yield "ranks-2^40", optim(partition_count=number(2**40)), "PICKLE", "no number of ranks"
    yield "ranks-missing", optim(partition_count=number(3)), "SHARD_MISSING", ""
    yield "ranks-differ", optim(partition_count=list_of(number(2), number(1))), "UNSUPPORTED", "as those of experts are"
    yield "groups-none", optim(single_partition_of_fp32_groups=b"]"), "PICKLE", "no groups"
    yield "groups-number", optim(single_partition_of_fp32_groups=number(7)), "PICKLE", "no groups"
    yield "group-text", optim(group=text("w")), "PICKLE", "a group is no tensor"
    yield "group-f64", zero(optim=lambda _, part: zero_optim(part, group=vector(6, kind="DoubleStorage"))), "PICKLE", "no vector of F32"
    yield "group-strided", zero(optim=lambda _, part: zero_optim(part, group=vector(6, step=2))), "PICKLE", "no vector of F32"
    yield "group-matrix", zero(optim=lambda _, part: zero_optim(part, group=tensor((4, 3), (3, 1), 0, storage(count=12)))), "PICKLE", "no vector of F32"
    yield "group-beyond", zero(optim=lambda _, part: zero_optim(part, group=vector(13))), "DAMAGED", "has 48 bytes, and the pickle says 52"
    yield "groups-of-ranks-differ", zero(optim=lambda rank, part: zero_optim(
        part, single_partition_of_fp32_groups=list_of(*[vector(12)] * (rank + 1)))), "PICKLE", "others than the ranks before"
    yield "elements-few", zero(model=shapes(5, 6)), "VIEW", "fewer elements than tensor"
    yield "elements-many", zero(model=shapes(2, 6)), "VIEW", "do not belong together"
    yield "elements-few-3", zero(stage=3, model=shapes(5, 6)), "VIEW", "fewer elements than tensor"
    yield "elements-many-3", zero(stage=3, model=shapes(2, 6)), "VIEW", "do not belong together"
    yield "elements-wrap", zero(model=shapes(2**32, 2**32)), "VIEW", "more than 2^64-1"
    yield "size-negative", zero(model=shapes(-4, -6)), "PICKLE", "without a name or a shape"
    yield "rank-65", zero(model=shapes(*[1] * 65)), "PICKLE", "without a name or a shape"
    yield "name-number", zero(model=zero_model(list_of(dict_of((number(1), size_of(SHAPE)))))), "PICKLE", "without a name"
    yield "name-reserved", zero(model=zero_model(list_of(dict_of((text("__metadata__"), size_of(SHAPE)))))), "NAME", ""
    yield "name-twice", zero(stage=3, model=zero_model(list_of(*[dict_of((text("w"), size_of((2, 6))))] * 2))), "DUPLICATE_NAME", ""
    yield "shapes-none", zero(model=zero_model(b"N")), "PICKLE", "no shapes of parameters"
    yield "shapes-many", zero(model=zero_model(list_of(*[dict_of((text("w"), size_of(SHAPE)))] * 2))), "PICKLE", "more groups of shapes"
    yield "buffer-text", zero(model=zero_model(module=dict_of((text("b"), text("x"))), buffer_names=list_of(text("b")))), "PICKLE", "is no tensor"
    yield "experts", zero(model=zero_model(num_experts=list_of(number(8)))), "UNSUPPORTED", "has experts in files of their own"
    yield "experts-alone", {"mp_rank_00_model_states.pt": zero_model(num_experts=number(8))}, "UNSUPPORTED", "has experts in files of their own"
    yield "tensor-parallel", zero(model=zero_model(mp_world_size=number(2))), "UNSUPPORTED", "tensor parallelism"
    yield "tensor-parallel-3", zero(stage=3, model=zero_model(mp_world_size=number(2))), "UNSUPPORTED", "tensor parallelism"
    yield "no-archive", zero(optim=lambda *_: bytes(500)), "DAMAGED", ""
    yield "call", zero(model=zero_model(call(name("os", "system"), text("true")))), "PICKLE", "no shapes of parameters"


def zero_refused_names():
    """(name of a file, what the message says): what cannot be put together is refused when it is named itself."""
    yield "mp_rank_01_model_states.pt", "tensor parallelism"
    yield "zero_pp_rank_0_mp_rank_01_optim_states.pt", "tensor parallelism"
    yield "layer_0_expert_3_mp_rank_00_model_states.pt", "a file of experts"
    yield "expp_rank_1_mp_rank_00_optim_states.pt", "a file of experts"


# ---- FSDP ---------------------------------------------------------------------------------------------------------------


def placed(kind="Shard", **state):
    return new("torch.distributed.tensor.placement_types", kind, attributes(**state))


def sharded_tensor(local):
    """One rank's part, as torch pickles what it had before DTensors."""
    kind = name("torch.distributed._shard.sharded_tensor.api", "ShardedTensor")
    shards = list_of(new("torch.distributed._shard.sharded_tensor.shard", "Shard", attributes(tensor=local)))
    arguments = tuple_of(kind, name("torch", "float32"), size_of(SHAPE), tuple_of(*map(number, steps_of(SHAPE))))
    return call(name("torch._tensor", "_rebuild_from_type_v2"), name("torch._utils", "_rebuild_wrapper_subclass"), kind, arguments,
                tuple_of(shards))


def dtensor(rank, local, placements=None, whole=SHAPE, place=None):
    """One rank's part, as torch pickles it."""
    placements = (placed(dim=number(0)),) if placements is None else placements
    place = (number(rank),) if place is None else place
    mesh = new("torch.distributed.device_mesh", "DeviceMesh", attributes(_coordinate_on_dim=list_of(*place)))
    spec = new("torch.distributed.tensor._dtensor_spec", "DTensorSpec", attributes(mesh=mesh, placements=tuple_of(*placements)))
    kind = name("torch.distributed.tensor", "DTensor")
    arguments = tuple_of(kind, name("torch", "float32"), size_of(whole), tuple_of(*map(number, steps_of(whole))))
    return call(name("torch._tensor", "_rebuild_from_type_v2"), name("torch._utils", "_rebuild_wrapper_subclass"), kind, arguments,
                attributes(_local_tensor=local, _spec=spec))


def fsdp(*, ranks=2, dim=0, world=None, called=None, part=None, **fields):
    """The whole, cut along a dimension. `part` replaces what a rank has: a function of rank, local tensor and bytes."""
    world = ranks if world is None else world
    files = {}
    each = -(-SHAPE[dim] // ranks)
    for rank in range(ranks):
        starts = [rank * each if d == dim else 0 for d in range(2)]
        sizes = [min(each, SHAPE[dim] - starts[dim]) if d == dim else SHAPE[d] for d in range(2)]
        data = floats(starts, sizes, SHAPE)
        local = tensor(sizes, steps_of(sizes), 0, storage(count=len(data) // 4))
        value = dtensor(rank, local, **{"placements": (placed(dim=number(dim)),), **fields}) if part is None else part(rank, local)
        names = [(text("w" if called is None else called(rank)), value)]
        files[f"model_world_size_{world}_rank_{rank}.pt"] = archive(dict_of(*names), data)
    return files


def fsdp_good():
    """(name, files)."""
    yield "rows", fsdp()
    yield "columns", fsdp(dim=1)
    yield "uneven", fsdp(ranks=3)
    yield "one-rank", fsdp(ranks=1)


def fsdp_attacks():
    """(name, files, status, what the message says)."""
    files = fsdp()
    first, second = files
    yield "missing", {first: files[first]}, "SHARD_MISSING", ""
    yield "swapped", {first: files[second], second: files[first]}, "DAMAGED", "of other ranks than the files' names say"
    yield "names-differ", fsdp(called=lambda rank: f"w{rank}"), "DAMAGED", ""
    yield "mesh-of-two", fsdp(placements=(placed(dim=number(0)), placed(dim=number(1)))), "UNSUPPORTED", "a mesh of several dimensions"
    yield "partial", fsdp(placements=(placed("Partial", reduce_op=text("sum")),)), "UNSUPPORTED", "is placed by"
    yield "placed-by-text", fsdp(placements=(text("Shard"),)), "UNSUPPORTED", "is placed by"
    yield "no-placement", fsdp(placements=()), "UNSUPPORTED", ""
    yield "dim-none", fsdp(placements=(placed(),)), "UNSUPPORTED", "is placed by"
    yield "dim-negative", fsdp(placements=(placed(dim=number(-1)),)), "UNSUPPORTED", "is placed by"
    yield "dim-2", fsdp(placements=(placed(dim=number(2)),)), "VIEW", "a dimension that it does not have"
    yield "dims-differ", fsdp(part=lambda rank, local: dtensor(rank, local, (placed(dim=number(rank)),))), "DAMAGED", "placed differently"
    yield "part-plain", fsdp(part=lambda rank, local: dtensor(rank, local) if rank == 0 else local), "DAMAGED", "in some of the files only"
    yield "sharded-tensor", fsdp(part=lambda rank, local: sharded_tensor(local)), "NO_EQUIVALENT", "one process's part of a ShardedTensor"
    yield "gap", fsdp(whole=(5, 6)), "VIEW", "leave a gap"
    yield "too-much", fsdp(whole=(3, 6)), "VIEW", ""
    yield "whole-wraps", fsdp(whole=(2**40, 2**40)), "VIEW", ""
    yield "whole-rank", fsdp(whole=(4, 6, 1)), "VIEW", ""
    yield "other-file", {first: files[first], second: bytes(500)}, "DAMAGED", ""
    yield "world-2^20", {"model_world_size_999999_rank_0.pt": files[first]}, "NO_EQUIVALENT", "one process's part of a distributed tensor"
