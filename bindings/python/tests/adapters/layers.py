# SPDX-License-Identifier: Apache-2.0
"""A model as tensor-parallel engines have them: parameters with the part of one rank, filled by loaders that slice and copy what
they are given. They know nothing of lazy tensors."""

import random

import torch
from torch import nn

DTYPES = [torch.bfloat16, torch.float16, torch.float32, torch.float8_e4m3fn, torch.int32]


def filled(shape, dtype, seed):
    size = torch.empty(shape, dtype=dtype, device="meta").element_size()
    make = torch.Generator().manual_seed(seed)
    count = torch.Size(shape).numel() * size
    return torch.randint(0, 120, (count,), dtype=torch.uint8, generator=make).view(dtype).view(shape)


class Sizes:
    """Of a model whose parts divide among `world` ranks, key and value heads aside, which are replicated where there are fewer."""

    def __init__(self, world, seed):
        choose = random.Random(seed)
        self.layers = 4
        self.dtype = choose.choice(DTYPES)
        self.hidden = 8 * world * choose.choice([1, 2])
        self.head = choose.choice([4, 8])
        self.heads = world * choose.choice([1, 2])
        self.key_heads = choose.choice([heads for heads in (1, 2, world) if self.heads % heads == 0 and (heads % world == 0 or world % heads == 0)])
        self.inner = world * choose.choice([3, 4, 8])
        self.experts = choose.choice([2, 4]) * world


def checkpoint(sizes):
    """Its tensors, whole, by name."""
    hidden, dtype = sizes.hidden, sizes.dtype
    shapes = {"embed.weight": (3 * hidden, hidden), "norm.weight": (hidden,)}
    for layer in range(sizes.layers):
        at = f"layers.{layer}"
        shapes[f"{at}.attn.q.weight"] = (sizes.heads * sizes.head, hidden)
        shapes[f"{at}.attn.k.weight"] = shapes[f"{at}.attn.v.weight"] = (sizes.key_heads * sizes.head, hidden)
        shapes[f"{at}.attn.o.weight"] = (hidden, sizes.heads * sizes.head)
        shapes[f"{at}.attn.scale"] = ()
        shapes[f"{at}.mlp.gate.weight"] = shapes[f"{at}.mlp.up.weight"] = (sizes.inner, hidden)
        shapes[f"{at}.mlp.down.weight"] = (hidden, sizes.inner)
        shapes[f"{at}.fused.weight"] = (2 * sizes.inner, hidden)  # gate and up in one tensor
        shapes[f"{at}.conv.weight"] = (sizes.inner, 1, 4)
        shapes[f"{at}.turned.weight"] = (hidden, sizes.inner)  # the other way round than its parameter
        shapes[f"{at}.packed.experts"] = (sizes.experts, hidden, 2 * sizes.inner)
        for expert in range(sizes.experts):
            shapes[f"{at}.experts.{expert}.w"] = (sizes.inner, hidden)
    return {name: filled(shape, dtype, seed) for seed, (name, shape) in enumerate(shapes.items())}


class Model(nn.Module):
    """What rank `rank` of `world` has of it. Half of the experts' ranks have whole experts, half a part of each."""

    def __init__(self, sizes, rank, world, device="cpu"):
        super().__init__()
        self.sizes, self.rank, self.world = sizes, rank, world
        self.values = {}
        for layer in range(sizes.layers):
            self._layer(f"layers.{layer}", device)
        self._new("embed", (3 * sizes.hidden // world, sizes.hidden), device)
        self._new("norm", (sizes.hidden,), device)

    def _layer(self, at, device):
        sizes, world = self.sizes, self.world
        inner, hidden = sizes.inner // world, sizes.hidden
        self.query = sizes.heads * sizes.head // world
        self.key = max(sizes.key_heads // world, 1) * sizes.head
        self._new(f"{at}.qkv", (self.query + 2 * self.key, hidden), device)
        self._new(f"{at}.o", (hidden, self.query), device)
        self._new(f"{at}.scale", (3,), device)
        self._new(f"{at}.gate_up", (2 * inner, hidden), device)
        self._new(f"{at}.down", (hidden, inner), device)
        self._new(f"{at}.fused", (2 * inner, hidden), device)
        self._new(f"{at}.conv", (inner, 4), device)
        self._new(f"{at}.turned", (inner, hidden), device)
        self._new(f"{at}.packed", (sizes.experts // world, 2 * sizes.inner, hidden), device)
        self._new(f"{at}.experts", (sizes.experts // world, sizes.inner, hidden), device)

    def _new(self, name, shape, device):
        self.values[name] = nn.Parameter(torch.zeros(shape, dtype=self.sizes.dtype, device=device), requires_grad=False)

    def load(self, weights):
        for name, weight in weights:
            self._load(name, weight)

    def _load(self, name, weight):
        if not name.startswith("layers"):
            self._column(self.values[name.removesuffix(".weight")].data, weight)
            return
        _, layer, kind, *rest = name.split(".")
        getattr(self, f"_load_{kind}")(f"layers.{layer}", weight, rest)

    def _column(self, target, weight):
        """Rows of the weight; all of it where it is not divided."""
        count = target.shape[0]
        if count != weight.shape[0]:
            weight = weight.narrow(0, self.rank * count, count)
        assert target.shape == weight.shape
        target.copy_(weight)

    def _row(self, target, weight):
        count = target.shape[1]
        target.copy_(weight.narrow(1, self.rank * count, count))

    def _load_attn(self, at, weight, rest):
        target = self.values[f"{at}.qkv"].data
        match rest[0]:
            case "q":
                self._column(target.narrow(0, 0, self.query), weight)
            case "k" | "v":
                count = self.key
                replicas = max(self.world // self.sizes.key_heads, 1)
                offset = self.query + (count if rest[0] == "v" else 0)
                target[offset : offset + count].copy_(weight.narrow(0, self.rank // replicas * count, count))
            case "o":
                self._row(self.values[f"{at}.o"].data, weight)
            case "scale":
                for at_scale in range(3):
                    self.values[f"{at}.scale"].data[at_scale].copy_(weight)

    def _load_mlp(self, at, weight, rest):
        inner = self.sizes.inner // self.world
        if rest[0] == "down":
            self._row(self.values[f"{at}.down"], weight)
        else:
            offset = 0 if rest[0] == "gate" else inner
            self._column(self.values[f"{at}.gate_up"].data.narrow(0, offset, inner), weight)

    def _load_fused(self, at, weight, rest):
        inner = self.sizes.inner // self.world
        target = self.values[f"{at}.fused"].data
        for number, half in enumerate(weight.chunk(2, dim=0)):
            self._column(target[number * inner : (number + 1) * inner], half)

    def _load_conv(self, at, weight, rest):
        count = self.sizes.inner // self.world
        self.values[f"{at}.conv"].data.copy_(weight.squeeze(1)[self.rank * count :][:count])

    def _load_turned(self, at, weight, rest):
        self._column(self.values[f"{at}.turned"].data, weight.t())

    def _load_packed(self, at, weight, rest):
        target = self.values[f"{at}.packed"].data
        self._column(target, weight.transpose(1, 2).contiguous() if self.rank % 2 else weight.permute(0, 2, 1))

    def _load_experts(self, at, weight, rest):
        own = self.sizes.experts // self.world
        number = int(rest[0]) - self.rank * own
        if 0 <= number < own:
            self.values[f"{at}.experts"].data[number].copy_(weight)


def same_values(one, other):
    return one.values.keys() == other.values.keys() and all(
        torch.equal(one.values[name].cpu().view(torch.uint8), other.values[name].cpu().view(torch.uint8)) for name in one.values
    )
