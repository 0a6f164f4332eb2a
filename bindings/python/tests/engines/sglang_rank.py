# SPDX-License-Identifier: Apache-2.0
"""One process of SGLang, on a CPU: `ranks.run` starts it. Instead of a server it publishes the configuration of one, and makes models
and LoRA adapters of that."""

import contextlib
import itertools
import json
import os

os.environ |= {"SGLANG_USE_CPU_ENGINE": "1", "SGLANG_PLUGINS": "coffer"}

import fakes
import torch._dynamo
import torch._inductor.codegen.triton
import torch._inductor.runtime.triton_heuristics

# torch has to see that there is no triton before there is a stub of it.
fakes.install("IPython", "flashinfer", "gguf", "sgl_kernel", "torchvision", "triton", "uvicorn", "vllm")

import torch
from ranks import Watched, arguments, report, summary
from sglang.srt.arg_groups.model_override_base import resolving_view
from sglang.srt.arg_groups.model_path_hook import handle_load_format
from sglang.srt.arg_groups.resolution_hooks import run_hook
from sglang.srt.configs.device_config import DeviceConfig
from sglang.srt.configs.load_config import LoadConfig
from sglang.srt.configs.model_config import ModelConfig
from sglang.srt.distributed.parallel_state import (
    destroy_distributed_environment,
    destroy_model_parallel,
    init_distributed_environment,
    initialize_model_parallel,
)
from sglang.srt.layers.dp_attention import initialize_dp_attention
from sglang.srt.layers.moe import initialize_moe_config
from sglang.srt.layers.quantization import fp8
from sglang.srt.lora.lora import LoRAAdapter
from sglang.srt.lora.lora_config import LoRAConfig
from sglang.srt.model_loader.loader import DefaultModelLoader, get_model_loader
from sglang.srt.plugins import load_plugins
from sglang.srt.runtime_context import SpawnRanks, publish, spawn_world_rank
from sglang.srt.server_args import ServerArgs
from sglang.srt.speculative.pp_draft_embedding import load_embedding_tensor, prepare_checkpoint_files

folder, out, rank, world, cases = arguments()
stores = itertools.count()

# What is asked for beside the model of that name.
MODELS = {"experts": "mixture", "online": "dense"}
SERVER = {"experts": {"ep_size": world}, "online": {"quantization": "fp8"}}

# What only processors with AMX have, and what then arranges the weights for it.
fp8._is_cpu_amx_available = True
fp8._amx_process_weight_after_loading = lambda layer, names: None


@contextlib.contextmanager
def parallel(case, model):
    server = ServerArgs(
        model_path=model, device="cpu", tp_size=world, dtype="bfloat16", skip_tokenizer_init=True, load_format="coffer", **SERVER.get(case, {})
    )
    publish(server, role="scheduler", ranks=SpawnRanks(world_rank=spawn_world_rank(server, tp_rank=rank, pp_rank=0), gpu_id=0))
    initialize_moe_config()
    init_distributed_environment(world, rank, f"file://{out}/store-{next(stores)}", rank, "gloo")
    initialize_model_parallel("gloo")
    initialize_dp_attention(server)
    try:
        yield
    finally:
        destroy_model_parallel()
        destroy_distributed_environment()  # what is published next forgets it


def configuration(load_format):
    return LoadConfig(load_format, model_loader_extra_config={"memory": 1 << 20, "threads": 1} if load_format == "coffer" else {})


def load(case, load_format, own):
    model = str(folder / MODELS.get(case, case))
    with parallel(case, model):
        config = ModelConfig(model, dtype="bfloat16", quantization=SERVER.get(case, {}).get("quantization"))
        load_config = configuration(load_format)
        loader = DefaultModelLoader(load_config) if own else get_model_loader(load_config, config)
        assert type(loader) is DefaultModelLoader  # a start that overlaps with loading takes no other
        return summary(loader.load_model(model_config=config, device_config=DeviceConfig("cpu", 0)).named_parameters())


def load_adapter(load_format):
    """LoRA, by a default loader of its own, made of the server's configuration."""
    with parallel("adapter", str(folder / "dense")):
        base = ModelConfig(str(folder / "dense"), dtype="bfloat16")
        adapter = LoRAAdapter("1", LoRAConfig(str(folder / "adapter")), base.hf_config, configuration(load_format), None)
        adapter.initialize_weights()
        weights = {name: tensor for layer in adapter.layers for name, tensor in layer.weights.items()}
        assert {type(tensor) for tensor in weights.values()} == {torch.Tensor}  # kept for good, so not to be read again
        return summary(weights.items())


def load_draft(load_format):
    """What a draft model takes of the target's files, which it finds by a default loader likewise."""
    with parallel("draft", str(folder / "dense")):
        found, files, of_tensors = prepare_checkpoint_files(str(folder / "dense"), revision=None, load_config=configuration(load_format))
        return summary([load_embedding_tensor(found, files, use_safetensors=of_tensors)])


def resolved(model):
    """What SGLang makes of the format, as processes are told it."""
    server = ServerArgs(model_path=str(folder / model), device="cpu", skip_tokenizer_init=True, load_format="coffer",
                        model_loader_extra_config=json.dumps({"threads": 1}))  # fmt: skip
    run_hook(handle_load_format, server)
    view = resolving_view(server)
    return view.load_format, view.model_loader_extra_config


def load_native(load_format):
    """Mistral's own names of files, which SGLang knows by looking."""
    model = str(folder / "native")
    format, extra = resolved("native")
    assert (format, json.loads(extra)) == ("mistral", {"threads": 1, "coffer": True})
    assert resolved("dense") == ("coffer", json.dumps({"threads": 1}))
    assert resolved("gguf/model.gguf")[0] == "gguf"
    with parallel("native", model):
        config = ModelConfig(model, dtype="bfloat16")
        load_config = LoadConfig(format, model_loader_extra_config=extra if load_format == "coffer" else {})
        assert hasattr(load_config, "coffer_options") == (load_format == "coffer")
        loader = get_model_loader(load_config, config)
        found = summary(loader.load_model(model_config=config, device_config=DeviceConfig("cpu", 0)).named_parameters())
        assert load_format != "coffer" or Watched.read()["read"] > 0
        return found


APART = {"adapter": load_adapter, "draft": load_draft, "native": load_native}


def one(case):
    if case in APART:
        return {"own": APART[case]("auto"), "coffer": APART[case]("coffer")}
    found = {"own": load(case, "auto", own=True)}
    assert not Watched.all
    found["coffer"] = load(case, "coffer", own=False)
    found |= Watched.read()
    if "COFFER_LOAD_AUTO" in os.environ:
        found["auto"] = load(case, "auto", own=False)
        found["auto read"] = Watched.read()["read"]
    return found


load_plugins()
report(out, rank, cases, one)
