# SPDX-License-Identifier: Apache-2.0
"""Tensors, kept safe: reads, checks, slices and writes safetensors files.

    with coffer.open("model.safetensors") as f:
        weight = f["wte.weight"]            # lazy: dtype, shape, offset; slices are lazy too
        rows = weight[1000:1010].numpy()    # a view of the file where that is possible, else just these bytes

`coffer.numpy`, `coffer.torch` and their siblings load and save whole files. `coffer.compat` imitates the packages safetensors and
bintensors, and `coffer.drop_in` puts the imitations where a program looks for these.
"""

# What the extension has is here at once, so that where it cannot be used `import coffer` says so; modules of Python are imported
# when somebody wants a name of theirs.
from ._errors import Error as Error
from ._native import VERSION as __version__  # noqa: F401
from ._native import Buffer as Buffer
from ._native import Staging as Staging
from ._native import Tensor as Tensor
from ._native import Writer as Writer
from ._native import record_digests as record_digests
from ._native import recover as recover
from .compat import SafetensorError as SafetensorError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._check import Note as Note
    from ._check import Report as Report
    from ._check import check as check
    from ._convert import Conversion as Conversion
    from ._convert import ConvertedTensor as ConvertedTensor
    from ._convert import Finding as Finding
    from ._convert import convert as convert
    from ._convert import scan as scan
    from ._diff import Difference as Difference
    from ._diff import TensorDifference as TensorDifference
    from ._diff import diff as diff
    from ._doctor import Diagnosis as Diagnosis
    from ._doctor import DiagnosisFinding as DiagnosisFinding
    from ._doctor import DiagnosisModel as DiagnosisModel
    from ._doctor import DiagnosisScope as DiagnosisScope
    from ._doctor import DiagnosisStep as DiagnosisStep
    from ._doctor import doctor as doctor
    from ._file import File as File
    from ._file import Parameters as Parameters
    from ._file import open as open
    from ._load import Load as Load
    from ._load import LoadStats as LoadStats
    from ._load import load as load
    from ._manifest import Manifest as Manifest
    from ._manifest import ManifestEntry as ManifestEntry
    from ._manifest import ManifestProblem as ManifestProblem
    from ._merge import Added as Added
    from ._merge import Extracted as Extracted
    from ._merge import add_lora as add_lora
    from ._merge import average as average
    from ._merge import dequantize as dequantize
    from ._merge import extract_lora as extract_lora
    from ._merge import merge_lora as merge_lora
    from ._models import edit_metadata as edit_metadata
    from ._models import fetch as fetch
    from ._models import merge as merge
    from ._models import split as split
    from ._numbers import Statistics as Statistics
    from ._numbers import statistics as statistics
    from ._plan import Cost as Cost
    from ._plan import Plan as Plan
    from ._plan import PlannedItem as PlannedItem
    from ._rewrite import Place as Place
    from ._rewrite import Rewrite as Rewrite
    from ._rewrite import TensorRewrite as TensorRewrite
    from ._rewrite import rewrite as rewrite
    from ._whole import load_file as load_file
    from ._whole import save_file as save_file
else:
    # The same for the interpreter: modules, and their names.
    _NAMES = {
        "_check": ("Note", "Report", "check"),
        "_convert": ("Conversion", "ConvertedTensor", "Finding", "convert", "scan"),
        "_diff": ("Difference", "TensorDifference", "diff"),
        "_doctor": ("Diagnosis", "DiagnosisFinding", "DiagnosisModel", "DiagnosisScope", "DiagnosisStep", "doctor"),
        "_file": ("File", "Parameters", "open"),
        "_load": ("Load", "LoadStats", "load"),
        "_manifest": ("Manifest", "ManifestEntry", "ManifestProblem"),
        "_merge": ("Added", "Extracted", "add_lora", "average", "dequantize", "extract_lora", "merge_lora"),
        "_models": ("edit_metadata", "fetch", "merge", "split"),
        "_numbers": ("Statistics", "statistics"),
        "_plan": ("Cost", "Plan", "PlannedItem"),
        "_rewrite": ("Place", "Rewrite", "TensorRewrite", "rewrite"),
        "_whole": ("load_file", "save_file"),
    }
    _MODULE_OF = {name: module for module, names in _NAMES.items() for name in names}
    __all__ = ["Buffer", "Error", "SafetensorError", "Staging", "Tensor", "Writer", "record_digests", "recover", *_MODULE_OF]

    def __getattr__(name):
        if name not in _MODULE_OF:
            raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
        import importlib

        value = getattr(importlib.import_module(f".{_MODULE_OF[name]}", __name__), name)
        globals()[name] = value
        return value

    def __dir__():
        return sorted({*globals(), *_MODULE_OF})
