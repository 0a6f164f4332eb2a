# SPDX-License-Identifier: Apache-2.0
HOOKS = {}


def register_resolution_hook(name):
    def register(hook):
        HOOKS[name] = hook
        return hook

    return register
