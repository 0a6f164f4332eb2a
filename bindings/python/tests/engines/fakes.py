# SPDX-License-Identifier: Apache-2.0
"""Stands in for packages that an engine imports and that loading weights does not run: kernels for GPUs, servers, image codecs."""

import importlib.abc
import importlib.machinery
import sys
import types


class _Kind(type):
    """Of a class whose every attribute is another one."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _Kind(name, (Stub,), {"__module__": cls.__module__})

    def __or__(cls, other):
        return cls

    __ror__ = __or__

    def __getitem__(cls, key):
        return cls


class Stub(metaclass=_Kind):
    """Whatever is wanted: a base class, a decorator, with or without arguments, or a value."""

    def __new__(cls, *args, **kwargs):
        if len(args) == 1 and not kwargs and callable(args[0]):
            return args[0]
        return super().__new__(cls)

    def __init__(self, *args, **kwargs):
        pass

    def __init_subclass__(cls, **kwargs):
        pass

    def __call__(self, *args, **kwargs):
        return type(self)(*args, **kwargs)

    def __getattr__(self, name):
        return getattr(type(self), name)


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, names):
        self.names = frozenset(names)

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        module = types.ModuleType(spec.name)
        names = _Kind(spec.name, (Stub,), {"__module__": spec.name})
        module.__getattr__ = lambda name: getattr(names, name)
        module.__version__ = "999.0"
        return module

    def exec_module(self, module):
        pass


def install(*names):
    """Modules of these names, and all below them, are stubs from now on."""
    sys.meta_path.insert(0, _Finder(names))
