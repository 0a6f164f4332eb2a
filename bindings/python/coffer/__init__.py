# SPDX-License-Identifier: Apache-2.0
"""Tensors, kept safe: reads, checks, slices and writes safetensors files.

    with coffer.open("model.safetensors") as f:
        weight = f["wte.weight"]            # lazy: dtype, shape, offset; slices are lazy too
        rows = weight[1000:1010].numpy()    # a view of the file where that is possible, else just these bytes

`coffer.numpy`, `coffer.torch` and their siblings load and save whole files, `coffer.bintensors` those of the kind `.bt`;
`coffer.drop_in` puts them where a program looks for safetensors and bintensors.
"""

from ._check import Note as Note
from ._check import Report as Report
from ._check import check as check
from ._errors import Error as Error
from ._errors import SafetensorError as SafetensorError
from ._file import File as File
from ._file import open as open
from ._native import VERSION as __version__
from ._native import Buffer as Buffer
from ._native import Tensor as Tensor
from ._native import Writer as Writer
from ._native import record_digests as record_digests
