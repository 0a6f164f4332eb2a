# SPDX-License-Identifier: Apache-2.0
"""Adapters that peft saves, merged by peft (merge_and_unload) and by `coffer merge-lora`; and those that `coffer extract-lora`
and `coffer add-lora` make, which peft loads.

Where every product and sum is exact, both have to agree to the last bit. Otherwise they differ by rounding: peft sums along the
rank in the order that the processor's matrix product has, and rounds the product to F16 or BF16 before it adds it. The bounds
are those of docs/editing.md."""

import json
import subprocess
import sys

import peft
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModelForCausalLM,
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
)

STEP = {torch.float32: 2.0**-24, torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}  # half of one, relative


def llama():
    return LlamaForCausalLM(
        LlamaConfig(
            hidden_size=48, num_attention_heads=4, num_hidden_layers=2, intermediate_size=80, vocab_size=96,
            num_key_value_heads=2, tie_word_embeddings=False,
        )
    )  # fmt: skip


def gpt2():
    return GPT2LMHeadModel(GPT2Config(n_embd=16, n_head=2, n_layer=2, vocab_size=64, n_positions=32))


def bert():
    return BertForSequenceClassification(
        BertConfig(hidden_size=16, num_attention_heads=2, num_hidden_layers=2, intermediate_size=32, vocab_size=64)
    )


class Convolutions(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.wide = torch.nn.Conv2d(6, 8, 3)
        self.point = torch.nn.Conv2d(8, 5, 1)
        self.line = torch.nn.Conv1d(5, 4, 5)
        self.last = torch.nn.Linear(4, 3)


CASES = {
    "llama": (llama, {"target_modules": ["q_proj", "v_proj", "up_proj"]}),
    "llama, everything": (llama, {"target_modules": "all-linear", "use_rslora": True, "r": 5}),
    "llama, patterns": (llama, {
        "target_modules": ["q_proj", "k_proj"], "rank_pattern": {"q_proj": 3, "layers.1.self_attn.k_proj": 7},
        "alpha_pattern": {"layers.0.self_attn.q_proj": 5, "k_proj": 32},
    }),
    "llama, whole tensors": (llama, {"target_modules": ["o_proj"], "modules_to_save": ["lm_head", "norm"]}),
    "llama, embeddings": (llama, {"target_modules": ["embed_tokens", "down_proj"]}),
    "gpt2, turned": (gpt2, {"target_modules": ["c_attn", "c_proj"], "fan_in_fan_out": True}),
    "bert, biases": (bert, {"target_modules": ["query", "dense"], "bias": "lora_only", "task_type": "SEQ_CLS"}),
    "convolutions": (Convolutions, {"target_modules": ["wide", "point", "line", "last"]}),
}  # fmt: skip


def save_base(model, folder):
    folder.mkdir()
    if hasattr(model, "save_pretrained"):
        model.save_pretrained(folder)
    else:
        save_file(model.state_dict(), folder / "model.safetensors")


def adapted(model, options):
    """The model with an adapter, all of whose tensors have random numbers."""
    config = peft.LoraConfig(**{"r": 4, "lora_alpha": 6, "init_lora_weights": False, **options})
    made = peft.get_peft_model(model, config)
    with torch.no_grad():
        for name, tensor in made.named_parameters():
            if "modules_to_save" in name or (tensor.requires_grad and "lora_" not in name):
                tensor.normal_()
    return made


def merge(tmp_path, *arguments):
    subprocess.run(
        [sys.executable, "-m", "coffer", "merge-lora", tmp_path / "base", tmp_path / "adapter", "-q", "-o",
         tmp_path / "merged.safetensors", *arguments], check=True, capture_output=True,
    )  # fmt: skip
    return load_file(tmp_path / "merged.safetensors")


def changes(model):
    """By the name of each tensor that is changed, the largest that its product can be, in F64."""
    found = {}
    for name, module in model.base_model.model.named_modules():
        if not isinstance(module, peft.tuners.lora.LoraLayer):
            continue
        shape = module.base_layer.weight.shape
        if "default" in module.lora_embedding_A:
            down, up = module.lora_embedding_A["default"], module.lora_embedding_B["default"]
        else:
            down, up = module.lora_A["default"].weight, module.lora_B["default"].weight
        size = up.double().abs().flatten(1) @ down.double().abs().flatten(1)
        turned = "default" in module.lora_embedding_A or getattr(module, "fan_in_fan_out", False)
        size = (size.T if turned else size).reshape(shape) * abs(module.scaling["default"])
        found[f"{name}.weight"] = (size, down.shape[0])
    return found


@pytest.mark.parametrize("dtype", STEP, ids=str)
@pytest.mark.parametrize("case", CASES)
def test_as_peft_merges(case, dtype, tmp_path):
    torch.manual_seed(1)
    make, options = CASES[case]
    model = make().to(dtype)
    save_base(model, tmp_path / "base")
    stored = load_file(tmp_path / "base" / "model.safetensors")
    model = adapted(model, options).to(dtype)
    model.save_pretrained(tmp_path / "adapter")
    sizes = changes(model)
    expected = model.merge_and_unload().state_dict()
    found = merge(tmp_path)
    assert found.keys() == stored.keys()
    different = 0
    for name, tensor in found.items():
        wanted = expected[name]
        assert tensor.dtype == wanted.dtype == dtype and tensor.shape == wanted.shape
        size, rank = next((value for end, value in sizes.items() if end.endswith(name)), (None, 0))
        if size is None:
            assert torch.equal(tensor, wanted), name
            continue
        rounding = STEP[dtype] * (size + wanted.double().abs() + tensor.double().abs())
        bound = rounding + 2 * (rank + 2) * 2.0**-24 * (size + stored[name].double().abs()) + 2.0**-24
        assert ((tensor.double() - wanted.double()).abs() <= bound).all(), name
        different += not torch.equal(tensor, stored[name])
    assert different == len(sizes)


@pytest.mark.parametrize("dtype", STEP, ids=str)
def test_exact_sums_are_the_same_to_the_last_bit(dtype, tmp_path):
    torch.manual_seed(2)
    model = llama().to(dtype)
    with torch.no_grad():
        for tensor in model.parameters():
            tensor.copy_(torch.randint(-4, 5, tensor.shape))
    save_base(model, tmp_path / "base")
    model = adapted(model, {"target_modules": "all-linear", "lora_alpha": 8}).to(dtype)
    with torch.no_grad():
        for name, tensor in model.named_parameters():
            if "lora_" in name:
                tensor.copy_(torch.randint(-3, 4, tensor.shape))
    model.save_pretrained(tmp_path / "adapter")
    found = merge(tmp_path)
    expected = model.merge_and_unload().state_dict()
    assert all(torch.equal(tensor, expected[name]) for name, tensor in found.items())


def test_what_was_merged_loads_and_computes_the_same(tmp_path):
    torch.manual_seed(3)
    model = llama()
    save_base(model, tmp_path / "base")
    model = adapted(model, {"target_modules": "all-linear"}).eval()
    model.save_pretrained(tmp_path / "adapter")
    merge(tmp_path)
    (tmp_path / "merged.safetensors").rename(tmp_path / "base" / "model.safetensors")
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "base", dtype=torch.float32).eval()
    tokens = torch.arange(8).unsqueeze(0)
    with torch.no_grad():
        torch.testing.assert_close(loaded(tokens).logits, model(tokens).logits, rtol=1e-4, atol=1e-3)


EXTRACTED = {
    "llama": (llama, [], 12),
    "gpt2": (gpt2, ["--fan-in-fan-out", "--select", "transformer.h.*"], 5),
    "bert": (bert, [], 7),
    "convolutions": (Convolutions, [], 3),
}  # fmt: skip


def changed(model, dtype):
    """The model with other numbers in every tensor, as a full training leaves it."""
    made = model.to(dtype)
    with torch.no_grad():
        for tensor in made.parameters():
            tensor.add_(torch.randn_like(tensor) / 8)
    return made


def least_loss(difference, rank):
    values = torch.linalg.svdvals(difference.double().flatten(1))
    return values[rank:].square().sum().sqrt()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("case", EXTRACTED)
def test_what_is_extracted_loads_in_peft(case, dtype, tmp_path, recwarn):
    torch.manual_seed(5)
    make, options, rank = EXTRACTED[case]
    model = make().to(dtype)
    save_base(model, tmp_path / "base")
    base = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    save_base(changed(model, dtype), tmp_path / "tuned")
    tuned = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    told = json.loads(
        subprocess.run(
            [sys.executable, "-m", "coffer", "extract-lora", tmp_path / "base", tmp_path / "tuned", "--rank", str(rank), "-o",
             tmp_path / "adapter", "--json", *options], check=True, capture_output=True,
        ).stdout
    )  # fmt: skip
    ranks = {one["name"]: one["rank"] for one in told["tensors"]}
    assert {one for one in ranks.values()} == {0, rank}
    model.load_state_dict(base)
    loaded = peft.PeftModel.from_pretrained(model, tmp_path / "adapter")
    assert not [one for one in recwarn if "missing" in str(one.message).lower()]
    found = loaded.merge_and_unload().state_dict()
    for name, wanted in tuned.items():
        stored = base[name] if name not in ranks else wanted
        if ranks.get(name, 0) == 0:
            assert torch.equal(found[name], stored), name
            continue
        rounding = 4 * STEP[dtype] * (wanted.double().norm() + base[name].double().norm())
        loss = (found[name].double() - wanted.double()).norm()
        assert loss <= 1.01 * least_loss(wanted.double() - base[name].double(), rank) + rounding, name


ADDED = {
    "llama": (llama, [{"target_modules": ["q_proj", "v_proj", "embed_tokens"]},
                      {"target_modules": ["v_proj", "up_proj"], "r": 3, "rank_pattern": {"up_proj": 5}}]),
    "gpt2": (gpt2, [{"target_modules": ["c_attn"], "fan_in_fan_out": True},
                    {"target_modules": ["c_attn", "c_proj"], "fan_in_fan_out": True, "use_rslora": True}]),
    "convolutions": (Convolutions, [{"target_modules": ["wide", "line"]}, {"target_modules": ["wide", "point", "last"], "r": 2}]),
}  # fmt: skip


@pytest.mark.parametrize("case", ADDED)
def test_what_is_added_loads_in_peft(case, tmp_path, recwarn):
    """peft's model with the sum has the weights of the base with all of its terms added, as peft computes each; and what it
    computes without merging is the same as what it computes merged."""
    torch.manual_seed(6)
    make, configs = ADDED[case]
    scales = [0.5, -2.0]
    expected = {}
    model = make()
    base = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    for i, options in enumerate(configs):
        model = make()
        model.load_state_dict(base)
        made = adapted(model, options)
        made.save_pretrained(tmp_path / str(i), save_embedding_layers=False)  # those are whole tensors
        for name, tensor in made.merge_and_unload().state_dict().items():
            change = (tensor.double() - base[name].double()) * scales[i]
            expected[name] = expected.get(name, base[name].double()) + change
    subprocess.run(
        [sys.executable, "-m", "coffer", "add-lora", tmp_path / "0", tmp_path / "1", "--scale", "0.5", "--scale", "-2", "-o",
         tmp_path / "sum"], check=True, capture_output=True,
    )  # fmt: skip
    model = make()
    model.load_state_dict(base)
    loaded = peft.PeftModel.from_pretrained(model, tmp_path / "sum").eval()
    assert not [one for one in recwarn if "missing" in str(one.message).lower()]
    tokens = torch.arange(8).unsqueeze(0)
    apart = loaded(tokens).logits if case != "convolutions" else None
    merged = loaded.merge_and_unload()
    changed_names = [name for name in expected if not torch.equal(expected[name], base[name].double())]
    assert len(changed_names) >= 3
    for name, wanted in expected.items():
        torch.testing.assert_close(merged.state_dict()[name].double(), wanted, rtol=1e-4, atol=1e-4)
    if apart is not None:
        torch.testing.assert_close(merged(tokens).logits, apart, rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("rank", [2, 6])
def test_what_is_added_at_a_smaller_rank_is_nearly_the_best(rank, tmp_path):
    torch.manual_seed(7)
    base = {name: tensor.clone() for name, tensor in llama().state_dict().items()}
    changes = {}
    for i in range(2):
        model = llama()
        model.load_state_dict(base)
        made = adapted(model, {"target_modules": ["q_proj"]})
        made.save_pretrained(tmp_path / str(i))
        for name, tensor in made.merge_and_unload().state_dict().items():
            changes[name] = changes.get(name, 0) + tensor.double() - base[name].double()
    subprocess.run(
        [sys.executable, "-m", "coffer", "add-lora", tmp_path / "0", tmp_path / "1", "--rank", str(rank), "-o", tmp_path / "sum"],
        check=True, capture_output=True,
    )  # fmt: skip
    model = llama()
    model.load_state_dict(base)
    found = peft.PeftModel.from_pretrained(model, tmp_path / "sum").merge_and_unload().state_dict()
    for name, change in changes.items():
        if "q_proj" in name:
            loss = (found[name].double() - base[name].double() - change).norm()
            assert loss <= 1.001 * least_loss(change, rank) + 1e-4 * change.norm()
            assert loss > 1e-3 * change.norm()


def test_other_kinds_are_refused(tmp_path):
    model = llama()
    save_base(model, tmp_path / "base")
    config = peft.VeraConfig(r=4, target_modules=["q_proj"])
    peft.get_peft_model(model, config).save_pretrained(tmp_path / "adapter")
    with pytest.raises(subprocess.CalledProcessError) as failure:
        merge(tmp_path)
    assert b"VERA" in failure.value.stderr
