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
from coffer.adapters.standins import StandIn
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
            assert same_values(found, expected(rank)) and found.kind is StandIn and loader.counter_before_loading_weights
            assert config.load_format == "coffer" and len(config.model_loader_extra_config) == 3
        engine.get_model_loader(engine.LoadConfig("auto")).load_weights(found, path)
        assert found.kind is not StandIn
        engine.get_model_loader(engine.LoadConfig("coffer", safetensors_load_strategy="torchao")).load_weights(found, path)
        assert found.kind is not StandIn
        for wrong in ({"other": 1}, {"memory": "1"}, {"threads": -1}, {"memory": True}):
            try:
                engine.get_model_loader(engine.LoadConfig("coffer", wrong))
            except ValueError as error:
                assert "unexpected" in str(error) or "must be a whole number" in str(error)
            else:
                raise AssertionError(wrong)
    """
    run("vllm", script, model)


def test_vllm_s_default_is_replaced_where_that_is_wanted(model):
    script = """
        from vllm.model_executor import model_loader as engine
        vllm.register()
        found = Prefixed(sizes, 1, 2)
        engine.get_model_loader(engine.LoadConfig("auto")).load_weights(found, path)
        assert same_values(found, expected(1)) and found.kind is StandIn
        Path(path, "other").mkdir()
        Path(path, "other", "x.bin").touch()
        loader = engine.get_model_loader(engine.LoadConfig("auto"))
        assert list(loader._get_weights_iterator(loader.Source(path + "/other", None))) == [("by itself", None)]
    """
    run("vllm", script, model, COFFER_LOAD_AUTO="1")


SGLANG = """
    from sglang.srt import server_args
    from sglang.srt.configs.load_config import LoadConfig, LoadFormat
    from sglang.srt.model_loader import loader as engine
    from sglang.srt.plugins.hook_registry import HookRegistry
    for _ in range(2):
        sglang.register()
        HookRegistry.apply_hooks()
    assert server_args.LOAD_FORMAT_CHOICES == ["auto", "safetensors", "coffer"] and HookRegistry.applied == 2
"""


def test_sglang(model):
    script = SGLANG + """
    for rank in range(2):
        config = LoadConfig("coffer", {"num_threads": 2, "memory": 1 << 20, "threads": 1})
        assert config.load_format is LoadFormat.SAFETENSORS
        found = Prefixed(sizes, rank, 2)
        loader = engine.get_model_loader(config)
        assert isinstance(loader, engine.DefaultModelLoader)
        loader.load_model(found, path)
        assert same_values(found, expected(rank)) and found.kind is StandIn and len(config.model_loader_extra_config) == 3
    for format in ("auto", "safetensors"):
        engine.get_model_loader(LoadConfig(format)).load_model(found, path)
        assert found.kind is not StandIn
    assert type(engine.get_model_loader(LoadConfig("dummy"))) is engine.DummyModelLoader

    # What the default loader does besides: files that an index forgets, files that are known already, and draft models.
    one, *others = sorted(map(str, Path(path).glob("*.safetensors")))
    forgotten = type("Config", (), {"hf_config": [one]})
    loader = engine.get_model_loader(LoadConfig("coffer"))
    Path(path, "moved").mkdir()
    for file in others:
        Path(file).rename(Path(path, "moved", Path(file).name))
    source = loader.Source(path + "/moved", None, model_config=forgotten)
    assert {name for name, _ in loader._get_weights_iterator(source)} == checkpoint(sizes).keys()
    resolved = type("Resolved", (), {"weight_files": (one,), "use_safetensors": True})
    assert {name for name, _ in loader._get_weights_iterator(source, resolved_source=resolved)} == load_file(one).keys()
    loader = engine.get_model_loader(LoadConfig("coffer", draft_model_idx=2))
    names = {name for name, _ in loader._get_weights_iterator(loader.Source(path, None, prefix="p."))}
    assert names == {"p." + name.replace("layers.2.", "layers.0.") for name in load_file(one) if "layers.2." in name}
    """
    run("sglang", textwrap.dedent(script), model)


def test_sglang_s_default_is_replaced_where_that_is_wanted(model):
    script = SGLANG + """
    for format in ("auto", "safetensors", "coffer"):
        found = Prefixed(sizes, 1, 2)
        engine.get_model_loader(LoadConfig(format)).load_model(found, path)
        assert same_values(found, expected(1)) and found.kind is StandIn
    assert type(engine.get_model_loader(LoadConfig("dummy"))) is engine.DummyModelLoader
    Path(path, "other").mkdir()
    Path(path, "other", "x.bin").touch()
    loader = engine.get_model_loader(LoadConfig("auto"))
    assert list(loader._get_weights_iterator(loader.Source(path + "/other", None))) == [("by itself", None)]
    """
    run("sglang", textwrap.dedent(script), model, COFFER_LOAD_AUTO="1")
