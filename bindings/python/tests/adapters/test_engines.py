# SPDX-License-Identifier: Apache-2.0
"""The plug-ins for vLLM and SGLang, against imitations of what these have for plug-ins: each case in a process of its own, since
engines are imported once."""

import os
import subprocess
import sys
import textwrap
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from layers import Sizes, checkpoint

from coffer.torch import save_file

HERE = Path(__file__).parent
ENGINES = {"vllm": "vllm.general_plugins", "sglang": "sglang.srt.plugins"}
BEGIN = """
import sys
from pathlib import Path
from layers import Model, Sizes, checkpoint, same_values
from coffer.torch import load_file
from coffer.adapters.lazy_tensors import LazyTensor
from coffer.adapters import {engine}
path, sizes = sys.argv[1], Sizes(2, 3)

class Prefixed(Model):
    prefix = "a."
    def load(self, weights):
        super().load((name.removeprefix("a."), self.seen(tensor)) for name, tensor in weights)
    def seen(self, tensor):
        self.kind = type(tensor)
        return tensor

def expected(rank):
    model = Model(sizes, rank, 2)
    for file in Path(path).glob("*.safetensors"):
        model.load(load_file(file).items())
    return model
"""


@pytest.fixture
def model(tmp_path):
    values = checkpoint(Sizes(2, 3))
    names = list(values)
    for number in range(3):
        save_file({name: values[name] for name in names[number::3]}, tmp_path / f"model-{number}.safetensors")
    return tmp_path


def run(engine, script, path, **environment):
    paths = [str(HERE), str(HERE / "imitations"), *sys.path]
    environment = {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "PATH": os.environ["PATH"], **environment}
    text = BEGIN.format(engine=engine) + textwrap.dedent(script)
    done = subprocess.run([sys.executable, "-c", text, path], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("engine", "group"), ENGINES.items())
def test_they_are_found_and_cost_nothing_without_the_engine(engine, group):
    (entry,) = [entry for entry in entry_points(group=group) if entry.name == "coffer"]
    script = f"""
        import sys
        sys.path[:] = {sys.path!r}
        from importlib.metadata import entry_points
        (entry,) = [entry for entry in entry_points(group={group!r}) if entry.name == "coffer"]
        entry.load()()
        assert "torch" not in sys.modules and "numpy" not in sys.modules and {engine!r} not in sys.modules
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True)
    assert entry.value == f"coffer.adapters.{engine}:register"


VLLM = """
    import logging
    from vllm.model_executor import model_loader as engine
    said = []
    logging.getLogger("coffer").warning = lambda message: said.append(message)
    vllm.register()
    loader = lambda *args, **kwargs: engine.get_model_loader(engine.LoadConfig(*args, **kwargs))
    iterated = lambda loader, *source: list(loader._get_weights_iterator(loader.Source(*source)))
"""


def test_vllm(model):
    script = """
        from vllm.model_executor import model_loader as engine
        before = list(engine.registered)
        vllm.register()
        vllm.register()
        assert engine.registered == [*before, "coffer"]
        for rank in range(2):
            config = engine.LoadConfig("coffer", {"num_threads": 2, "memory": 1 << 20, "threads": 1})
            found = Prefixed(sizes, rank, 2)
            loader = engine.get_model_loader(config)
            loader.load_weights(found, path)
            assert same_values(found, expected(rank)) and found.kind is LazyTensor
            assert config.load_format == "coffer" and len(config.model_loader_extra_config) == 3
        engine.get_model_loader(engine.LoadConfig("auto")).load_weights(found, path)
        assert found.kind is not LazyTensor
        engine.get_model_loader(engine.LoadConfig("coffer", safetensors_load_strategy="torchao")).load_weights(found, path)
        assert found.kind is not LazyTensor
        for wrong in ({"other": 1}, {"memory": "1"}, {"threads": -1}, {"memory": True}):
            try:
                engine.get_model_loader(engine.LoadConfig("coffer", wrong))
            except ValueError as error:
                assert "unexpected" in str(error) or "must be a whole number" in str(error)
            else:
                raise AssertionError(wrong)
    """
    run("vllm", script, model)


def test_vllm_itself_chooses_files_and_tensors(model, tmp_path):
    values = checkpoint(Sizes(2, 3))
    save_file({"readout": values["norm.weight"]}, model / "readout.safetensors")
    for folder, names in {"mistral": ["consolidated", "model"], "numbered": ["model-10", "model-9", "model-1"]}.items():
        (tmp_path / folder).mkdir()
        for name in names:
            save_file({f"of {name}": values["norm.weight"]}, tmp_path / folder / f"{name}.safetensors")
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "x.bin").touch()
    script = VLLM + """
    names = lambda loader, *source: [name for name, _ in iterated(loader, *source)]

    # A file that has nothing but what the model declares unused, and other processes' experts.
    assert sorted(names(loader("coffer"), path, "p.", lambda name: name == "readout")) == sorted("p." + name for name in checkpoint(sizes))
    assert "readout" in names(loader("coffer"), path)
    mine = loader("coffer")
    mine.local_expert_ids = {1}
    assert set(names(mine, path)) == {"readout"} | {name for name in checkpoint(sizes) if "layers." not in name or "layers.1." in name}

    # The files of its default format, in its order.
    assert names(loader("coffer"), path + "/torch") == ["by itself"]
    assert names(loader("coffer"), path + "/mistral") == ["of consolidated"]
    assert names(loader("coffer"), path + "/numbered") == ["of model-1", "of model-9", "of model-10"]
    """
    run("vllm", textwrap.dedent(script), model)


def test_vllm_s_options_that_are_ignored_are_told_once(model):
    script = VLLM + """
    iterated(loader("coffer", safetensors_load_strategy="lazy"), path)
    assert said == []
    for strategy in ("eager", "prefetch", "eager"):
        iterated(loader("coffer", safetensors_load_strategy=strategy), path)
    iterated(loader("coffer", {"enable_multithread_load": True}), path)
    assert [message.split(" ")[0] for message in said] == [
        "safetensors_load_strategy=eager", "safetensors_load_strategy=prefetch", "enable_multithread_load",
    ], said
    """
    run("vllm", textwrap.dedent(script), model)


def test_vllm_s_default_is_replaced_where_that_is_wanted(model):
    script = VLLM + """
    found = Prefixed(sizes, 1, 2)
    loader("auto").load_weights(found, path)
    assert same_values(found, expected(1)) and found.kind is LazyTensor
    loader("safetensors").load_weights(found, path)
    assert found.kind is not LazyTensor
    """
    run("vllm", textwrap.dedent(script), model, COFFER_LOAD_AUTO="1")


SGLANG = """
    import logging
    from sglang.srt import server_args
    from sglang.srt.configs.load_config import LoadConfig, LoadFormat
    from sglang.srt.model_loader import loader as engine
    from sglang.srt.arg_groups.resolution_hooks import HOOKS
    from sglang.srt.plugins.hook_registry import HookRegistry
    for _ in range(2):
        sglang.register()
        HookRegistry.apply_hooks()
    assert server_args.LOAD_FORMAT_CHOICES == ["auto", "safetensors", "coffer"] and HookRegistry.applied == 5 and list(HOOKS) == ["handle_load_format"]
    said = []
    logging.getLogger("coffer").warning = lambda message: said.append(message)
    iterated = lambda loader, *args, **kwargs: list(loader._get_weights_iterator(loader.Source(*args), **kwargs))
"""


def test_sglang(model):
    script = SGLANG + """
    for rank in range(2):
        config = LoadConfig("coffer", {"num_threads": 2, "memory": 1 << 20, "threads": 1})
        assert config.load_format is LoadFormat.AUTO and config.model_loader_extra_config == {"num_threads": 2}
        found = Prefixed(sizes, rank, 2)
        loader = engine.get_model_loader(config)
        assert type(loader) is engine.DefaultModelLoader
        loader.load_model(found, path)
        assert same_values(found, expected(rank)) and found.kind is LazyTensor
    for format in ("auto", "safetensors"):
        engine.get_model_loader(LoadConfig(format)).load_model(found, path)
        assert found.kind is not LazyTensor
    assert type(engine.get_model_loader(LoadConfig("dummy"))) is engine.DummyModelLoader

    # What the default loader does besides: files that an index forgets, files that are known already, and draft models.
    one, *others = sorted(map(str, Path(path).glob("*.safetensors")))
    forgotten = type("Config", (), {"hf_config": [one]})
    loader = engine.get_model_loader(LoadConfig("coffer"))
    Path(path, "moved").mkdir()
    for file in others:
        Path(file).rename(Path(path, "moved", Path(file).name))
    assert {name for name, _ in iterated(loader, path + "/moved", "", forgotten)} == checkpoint(sizes).keys()
    resolved = type("Resolved", (), {"weight_files": (one,), "use_safetensors": True})
    assert {name for name, _ in iterated(loader, path, resolved_source=resolved)} == load_file(one).keys()
    loader = engine.get_model_loader(LoadConfig("coffer", draft_model_idx=2))
    names = {name for name, _ in iterated(loader, path, "p.")}
    assert names == {"p." + name.replace("layers.2.", "layers.0.") for name in load_file(one) if "layers.2." in name}
    """
    run("sglang", textwrap.dedent(script), model)


def test_sglang_s_other_loaders_work_as_ever(model):
    script = SGLANG + """
    config = LoadConfig("coffer", {"memory": 1 << 20, "threads": 1})
    Path(path, "torch").mkdir()
    Path(path, "torch", "x.bin").touch()
    assert iterated(engine.get_model_loader(config), path + "/torch") == [("by itself", None)]
    kept = dict(iterated(engine.DefaultModelLoader(config), path))  # as for LoRA, which keeps the tensors
    assert kept.keys() == checkpoint(sizes).keys() and LazyTensor not in map(type, kept.values())
    assert said == []
    assert type(engine.get_model_loader(config, "modelopt")) is engine.ModelOptModelLoader
    assert LazyTensor not in [type(tensor) for _, tensor in iterated(engine.get_model_loader(config, "modelopt"), path)]
    assert said == ["SGLang's ModelOptModelLoader reads the weights, and not Coffer"]
    """
    run("sglang", textwrap.dedent(script), model)


def test_sglang_s_options_that_are_ignored_are_told_once(model):
    script = SGLANG + """
    iterated(engine.get_model_loader(LoadConfig("coffer")), path)
    assert said == []
    for _ in range(2):
        iterated(engine.get_model_loader(LoadConfig("coffer", {"num_threads": 2}, server={"prefetch": True})), path)
        options = {"enable_multithread_load": False}
        iterated(engine.get_model_loader(LoadConfig("coffer", options, server={"drop_cache_after_load": True})), path)
    assert [message.split(" ")[0] for message in said] == [
        "enable_multithread_load", "weight_loader_prefetch_checkpoints", "weight_loader_drop_cache_after_load",
    ], said
    """
    run("sglang", textwrap.dedent(script), model)


def test_sglang_s_default_is_replaced_where_that_is_wanted(model):
    script = SGLANG + """
    for format in ("auto", "safetensors", "coffer"):
        found = Prefixed(sizes, 1, 2)
        loader = engine.get_model_loader(LoadConfig(format))
        assert type(loader) is engine.DefaultModelLoader  # SGLang's overlapped start takes no other
        loader.load_model(found, path)
        assert same_values(found, expected(1)) and found.kind is LazyTensor
    assert type(engine.get_model_loader(LoadConfig("dummy"))) is engine.DummyModelLoader
    assert said == []
    """
    run("sglang", textwrap.dedent(script), model, COFFER_LOAD_AUTO="1")
