# SPDX-License-Identifier: Apache-2.0
"""DoRA, LoHa and LoKr that peft saves, merged by peft and by `coffer merge-lora`, for every kind of layer. They differ by rounding,
which is not bounded as closely as for LoRA."""

import subprocess

import peft
import pytest
import torch
from peft.tuners.tuners_utils import BaseTunerLayer
from safetensors.torch import load_file
from test_peft import gpt2, llama, merge, save_base


class Layers(torch.nn.Module):
    """Layers of every kind, whose sizes LoKr divides in more ways than one."""

    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(40, 12)
        self.linear = torch.nn.Linear(12, 18)
        self.wide = torch.nn.Conv2d(12, 24, 3)
        self.oblong = torch.nn.Conv2d(12, 20, (3, 5))
        self.point = torch.nn.Conv2d(8, 6, 1)
        self.line = torch.nn.Conv1d(6, 4, 5)


EVERYTHING = ["embed", "linear", "wide", "oblong", "point", "line"]
CONVOLVED = ["linear", "wide", "oblong", "point", "line"]
KINDS = {
    "dora": (Layers, peft.LoraConfig, {"target_modules": EVERYTHING, "use_dora": True, "lora_alpha": 6}),
    "dora, by the root": (Layers, peft.LoraConfig, {
        "target_modules": CONVOLVED, "use_dora": True, "use_rslora": True, "rank_pattern": {"wide": 2}}),
    "dora, llama": (llama, peft.LoraConfig, {"target_modules": "all-linear", "use_dora": True}),
    "dora, embeddings": (llama, peft.LoraConfig, {"target_modules": ["embed_tokens", "q_proj"], "use_dora": True}),
    "dora, turned": (gpt2, peft.LoraConfig, {
        "target_modules": ["c_attn", "c_proj"], "use_dora": True, "fan_in_fan_out": True}),
    "loha": (Layers, peft.LoHaConfig, {"target_modules": CONVOLVED, "alpha": 6}),
    "loha, cores": (Layers, peft.LoHaConfig, {"target_modules": CONVOLVED, "use_effective_conv2d": True}),
    "loha, patterns": (llama, peft.LoHaConfig, {
        "target_modules": ["q_proj", "v_proj"], "rank_pattern": {"q_proj": 3}, "alpha_pattern": {"v_proj": 5}}),
    "lokr": (Layers, peft.LoKrConfig, {"target_modules": ["linear", "wide", "oblong", "point"], "alpha": 6}),
    "lokr, thin": (Layers, peft.LoKrConfig, {"target_modules": CONVOLVED, "r": 1, "decompose_both": True}),
    "lokr, cores": (Layers, peft.LoKrConfig, {
        "target_modules": ["linear", "wide", "oblong", "point"], "r": 2, "use_effective_conv2d": True}),
    "lokr, by a factor": (llama, peft.LoKrConfig, {
        "target_modules": ["q_proj", "down_proj"], "decompose_factor": 4, "r": 2, "modules_to_save": ["lm_head"]}),
}  # fmt: skip
# Of the largest number of a tensor: peft rounds products, lengths and quotients to the model's dtype, one after the other.
NEAR = {torch.float32: 2.0**-19, torch.bfloat16: 2.0**-5, torch.float16: 2.0**-8}


def of_a_kind(kind, dtype, tmp_path):
    """A model whose adapter is saved beside it; all its numbers are random."""
    make, config, options = KINDS[kind]
    begun = {"init_lora_weights": False} if config is peft.LoraConfig else {"init_weights": False}
    model = make().to(dtype)
    save_base(model, tmp_path / "base")
    model = peft.get_peft_model(model, config(**{"r": 4, **begun, **options})).to(dtype)
    with torch.no_grad():
        for name, tensor in model.named_parameters():
            if "magnitude" in name:
                tensor.mul_(torch.rand_like(tensor) + 0.5)
            elif "modules_to_save" in name:
                tensor.normal_()
    model.save_pretrained(tmp_path / "adapter")
    return model


def assert_near(found, expected, near):
    for name, tensor in found.items():
        wanted = expected[name]
        assert tensor.dtype == wanted.dtype and tensor.shape == wanted.shape
        off = (tensor.double() - wanted.double()).abs().max().item()
        assert off <= near * wanted.double().abs().max().item(), (name, off)


@pytest.mark.parametrize("dtype", NEAR, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_as_peft_merges(kind, dtype, tmp_path):
    torch.manual_seed(4)
    model = of_a_kind(kind, dtype, tmp_path)
    stored = load_file(tmp_path / "base" / "model.safetensors")
    adapted_layers = [module for module in model.modules() if isinstance(module, BaseTunerLayer)]
    expected = model.merge_and_unload().state_dict()
    found = merge(tmp_path)
    assert_near(found, expected, NEAR[dtype])
    different = [name for name, tensor in found.items() if not torch.equal(tensor, stored[name])]
    assert len(different) == len(adapted_layers) + ("modules_to_save" in KINDS[kind][2])


@pytest.mark.parametrize("kind", ["dora", "dora, turned", "loha", "lokr"])
def test_every_kind_by_a_scale(kind, tmp_path):
    torch.manual_seed(5)
    model = of_a_kind(kind, torch.float32, tmp_path)
    for module in model.modules():
        if isinstance(module, BaseTunerLayer):
            module.set_scale("default", 0.25)
    assert_near(merge(tmp_path, "--scale", "0.25"), model.merge_and_unload().state_dict(), NEAR[torch.float32])


def test_dora_after_other_adapters(tmp_path):
    """The lengths are those of the base alone, in peft and here."""
    torch.manual_seed(6)
    model = of_a_kind("dora", torch.float32, tmp_path)
    for name, dora in (("second", False), ("third", True)):
        config = peft.LoraConfig(r=3, target_modules=CONVOLVED, use_dora=dora, init_lora_weights=False)
        model.add_adapter(name, config)
    model.save_pretrained(tmp_path / "adapter")
    names = ["default", "second", "third"]
    model.base_model.set_adapter(names)
    expected = model.merge_and_unload(adapter_names=names).state_dict()
    found = merge(tmp_path, tmp_path / "adapter" / "second", tmp_path / "adapter" / "third")
    assert_near(found, expected, NEAR[torch.float32])


def test_what_peft_multiplies_in_another_order_is_refused(tmp_path):
    model = Layers()
    save_base(model, tmp_path / "base")
    config = peft.LoKrConfig(r=8, target_modules=["line"], init_weights=False)
    peft.get_peft_model(model, config).save_pretrained(tmp_path / "adapter")
    with pytest.raises(subprocess.CalledProcessError) as failure:
        merge(tmp_path)
    assert b"merge the adapter with PEFT" in failure.value.stderr
