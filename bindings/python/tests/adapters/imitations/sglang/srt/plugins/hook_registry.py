# SPDX-License-Identifier: Apache-2.0
"""Functions around others, by name, put there when all plug-ins have been called."""

import enum
import functools
import pkgutil


class HookType(enum.Enum):
    AROUND = "around"


class HookRegistry:
    hooks = []
    applied = 0

    @classmethod
    def register(cls, target, hook, hook_type):
        assert hook_type is HookType.AROUND
        cls.hooks.append((target, hook))

    @classmethod
    def apply_hooks(cls):
        for target, hook in cls.hooks[cls.applied :]:
            place, _, name = target.rpartition(".")
            owner = pkgutil.resolve_name(place)
            setattr(owner, name, cls._around(getattr(owner, name), hook))
        cls.applied = len(cls.hooks)

    @staticmethod
    def _around(original, hook):
        @functools.wraps(original)
        def wrapped(*args, **kwargs):
            return hook(original, *args, **kwargs)

        return wrapped
