# SPDX-License-Identifier: Apache-2.0
"""One process of vLLM, on a CPU: `ranks.run` starts it. Instead of a server it makes the configuration that one would, and the model
of it."""

import contextlib
import functools
import os

os.environ |= {"VLLM_TARGET_DEVICE": "cpu", "VLLM_PLUGINS": "coffer", "TORCHDYNAMO_DISABLE": "1"}

import fakes
import torch
from ranks import Watched, arguments, report, summary

torch.accelerator.empty_cache = lambda: None  # there is no accelerator, and vLLM's loader does not ask

from vllm import _custom_ops
from vllm.config import set_current_vllm_config
from vllm.distributed import destroy_model_parallel, init_distributed_environment, initialize_model_parallel
from vllm.engine.arg_utils import EngineArgs
from vllm.model_executor.kernels import linear
from vllm.model_executor.layers.fused_moe.experts import cpu_moe
from vllm.model_executor.model_loader import DefaultModelLoader, get_model, get_model_loader
from vllm.model_executor.models.llama import LlamaForCausalLM
from vllm.plugins import load_general_plugins

folder, out, rank, world, cases = arguments()
os.environ["VLLM_DIST_IDENT"] = out.parent.name  # of memory that the ranks share

# What is asked for beside the model of that name.
OPTIONS = {
    "experts": {"model": "mixture", "enable_expert_parallel": True},
    "filtered experts": {"model": "mixture", "enable_expert_parallel": True, "enable_ep_weight_filter": True},
    "online": {"model": "dense", "quantization": "fp8"},
}


def quantised(values, scale=None, **others):
    """Compiled parts of vLLM are for GPUs, and no layer is run."""
    scale = values.abs().max().float() / 448 if scale is None else scale
    return (values.float() / scale).clamp(-448, 448).to(torch.float8_e4m3fn), scale


_custom_ops.scaled_fp8_quant = quantised
cpu_moe.cpu_prepack_moe_weight = lambda weight, isa: weight
linear.choose_scaled_mm_linear_kernel = lambda *args, **kwargs: fakes.Stub
LlamaForCausalLM.is_unused_checkpoint_weight = staticmethod(lambda name: name.startswith("readout."))


def configuration(case, load_format):
    options = {"model": case} | OPTIONS.get(case, {})
    options["model"] = str(folder / options["model"])
    if load_format == "coffer":
        options["model_loader_extra_config"] = {"memory": 1 << 20, "threads": 1}
    return EngineArgs(
        **options,
        skip_tokenizer_init=True,
        load_format=load_format,
        dtype="bfloat16",
        enforce_eager=True,
        max_model_len=128,
        tensor_parallel_size=world,
        distributed_executor_backend="external_launcher" if world > 1 else None,
    ).create_engine_config()


@contextlib.contextmanager
def parallel(config):
    with set_current_vllm_config(config):
        if not torch.distributed.is_initialized():
            init_distributed_environment(world, rank, f"file://{out}/store", rank, "gloo")
        initialize_model_parallel(world)
        try:
            yield
        finally:
            destroy_model_parallel()


def load(case, load_format, own):
    config = configuration(case, load_format)
    with parallel(config):
        model = DefaultModelLoader(config.load_config).load_model(config, config.model_config) if own else get_model(vllm_config=config)
    return summary(model.named_parameters())


def load_encoder(load_format, own):
    """What is left of a model's files for its encoder alone. None of these models has one: the layers play what it does without."""
    config = configuration("dense", load_format)
    loader = (DefaultModelLoader if own else get_model_loader)(config.load_config)
    loader._encoder_only_lm_prefixes = ("model.layers.",)
    return summary(loader._get_weights_iterator(loader.Source(config.model_config.model, None)))


def one(case):
    """Coffer as the load format, and in the place of the default one, where the environment says so."""
    loaded = load_encoder if case == "encoder" else functools.partial(load, case)
    found = {"own": loaded("auto", own=True)}
    assert not Watched.all
    found["coffer"] = loaded("coffer", own=False)
    found |= Watched.read()
    if "COFFER_LOAD_AUTO" in os.environ:
        found["auto"] = loaded("auto", own=False)
        found["auto read"] = Watched.read()["read"]
    return found


load_general_plugins()
report(out, rank, cases, one)
