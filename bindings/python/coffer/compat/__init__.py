# SPDX-License-Identifier: Apache-2.0
"""What imitates other packages: their names, their exceptions and their wording, which programs match on.

`coffer.compat.safetensors` is the package safetensors, `coffer.compat.bintensors` the package bintensors, and `coffer.drop_in` puts
both in the places of the real ones. The modules outside of this folder have names and messages of their own, and fail with
`coffer.Error`; the one thing of this folder that they know is the class below.
"""


class SafetensorError(Exception):
    """A file or a call that the format does not allow: what callers of safetensors catch.

    `coffer.Error` is one, so that a program that changes from safetensors to `coffer` keeps its `except` clauses.
    """
