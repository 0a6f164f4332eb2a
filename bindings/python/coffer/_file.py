# SPDX-License-Identifier: Apache-2.0
"""coffer.open: a file, or a model of several files, as a mapping of its tensors."""

from __future__ import annotations

import html
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple

from . import _show
from ._errors import wrong_type
from ._native import Model, Tensor
from ._options import several

if TYPE_CHECKING:
    from ._native import Access, Algorithm, BufferLike, Format, Formats, Progress


class Parameters(NamedTuple):
    """How many parameters a model has, by dtype; docs/format.md has the rules."""

    plain: dict[str, int]  # the elements of all tensors
    trained: dict[str, int]  # the weights as they were before quantisation packed them
    compatible: dict[str, int]  # as @huggingface/hub counts
    assumed: str  # of the quantisation, in words; "" when there is none


# More tensors than this are not shown by str(), and in notebooks.
SHOWN = 200
SHOWN_IN_NOTEBOOKS = 20


class File(Mapping[str, Tensor]):
    """An opened file, or model of several: its tensors by name, in the order of the names. Nothing is read before a tensor's bytes
    are asked for.

    What it handed out stays usable after it is closed; the file is released when the last of that is gone.
    """

    __slots__ = ("_model",)

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def path(self) -> str | None:
        """As it was given; None for a descriptor and for memory."""
        return self._model.path

    @property
    def metadata(self) -> dict[str, str]:
        """A copy of the metadata; empty when the header has none. Of several files the pairs of all; where they differ, those of
        the first."""
        return self._model.metadata() or {}

    @property
    def format(self) -> Format:
        """How its header is spelt."""
        return self._model.format

    @property
    def shards(self) -> list[str]:
        """The paths of its files."""
        return self._model.shards

    @property
    def nbytes(self) -> int:
        """Of all tensors together."""
        return sum(info[4] for info in self._model.infos())

    @property
    def closed(self) -> bool:
        return self._model.closed

    def close(self) -> None:
        """Ends the use of this object; what was handed out stays usable."""
        self._model.close()

    def verify(self, names: str | Iterable[str] | None = None, *, progress: Progress | None = None) -> None:
        """Holds tensors, all when `names` is None, against the digests that their files record, and the metadata of those files.

        What is not as recorded is an Error, with the first tensor in question; so are files that record nothing.
        """
        self._model.verify(None if names is None else several(names), progress=progress)

    def content_digest(self, algorithm: Algorithm = "sha256", *, progress: Progress | None = None) -> str:
        """In hexadecimal: equal for two models that have the same tensors, whatever their files, order, format and metadata."""
        return self._model.content_digest(algorithm, progress=progress).hex()

    def digests(self, algorithm: Algorithm = "sha256", *, progress: Progress | None = None) -> dict[str, str]:
        """Of the bytes of each tensor, in hexadecimal, in the order of the file."""
        digests = self._model.digests(algorithm, progress=progress)
        return {name: digest.hex() for name, digest in zip(self._model.offset_keys(), digests, strict=True)}

    def parameters(self, config: str | None = None) -> Parameters:
        """How many parameters it has, by the text of a config.json; None: by the one beside the file, if there is one; "": by none."""
        return Parameters(*self._model.parameters(config))

    def __reduce__(self) -> tuple[object, ...]:
        """By its path: whoever unpickles it opens it again. A token is left behind."""
        return (File, (self._model,))

    def __eq__(self, other: object) -> bool:
        """The same object. Another file is a TypeError: two are held against each other by coffer.diff, which reads them."""
        if self is not other and isinstance(other, Mapping):
            raise wrong_type("files are not compared by ==: coffer.diff(a, b) tells how they differ, a.content_digest() whether they do")
        return self is other

    def __hash__(self) -> int:
        return object.__hash__(self)

    def __getitem__(self, name: str) -> Tensor:
        return self._model.find(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._model.keys())

    def __len__(self) -> int:
        return len(self._model)

    def __contains__(self, name: object) -> bool:
        return name in self._model

    def __enter__(self) -> File:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # ---- Showing it ---------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return f"<coffer.File {self._summary()}>"

    def __str__(self) -> str:
        if self.closed:
            return repr(self)
        rows = _show.rows(self._model.infos(), SHOWN)
        widths = [max((len(row[i]) for row in rows), default=0) for i in range(4)]
        lines = [
            f"{name:<{widths[0]}}  {dtype:<{widths[1]}}  {shape:<{widths[2]}}  {size:>{widths[3]}}"
            for name, dtype, shape, size in rows
        ]
        return "\n".join([self._summary(), *lines, *self._left_out()])

    def _repr_html_(self) -> str:
        """In a notebook: the sums, the dtypes and the first tensors."""
        if self.closed:
            return html.escape(repr(self))
        return _show.model_html(self._where(), self.format, len(self.shards), self._model.infos(), SHOWN_IN_NOTEBOOKS)

    def _where(self) -> str:
        """The last part of the path, without the query of a URL, which may be a signature: notebooks are shared."""
        if self.path is None:
            return "in memory"
        path = re.split("[?#]", self.path, maxsplit=1)[0] if "://" in self.path else self.path
        return _show.plain(os.path.basename(path.rstrip("/")) or path)

    def _summary(self) -> str:
        if self.closed:
            return f"{self._where()}: closed"
        shards = len(self.shards)
        files = "" if shards == 1 else f" in {shards:,} files"
        return f"{self._where()}: {_show.counted(len(self), 'tensor')}{files}, {_show.size_text(self.nbytes)}"

    def _left_out(self) -> list[str]:
        more = len(self) - SHOWN
        return [f"… and {more:,} more"] if more > 0 else []


def open(  # noqa: A001
    source: str | os.PathLike[str] | os.PathLike[bytes] | int | BufferLike,
    *,
    access: Access = "auto",
    populate: bool = False,
    max_header_size: int = 0,
    unknown_dtypes: bool = False,
    format: Format | None = None,
    verify: bool = False,
    token: str | None = None,
    timeout: float | None = None,
    partial: bool = False,
    progress: Progress | None = None,
    formats: Formats = "all",
) -> File:
    """Opens a file: a path or a URL, a descriptor (which is duplicated), or bytes in memory. A path that ends in `.index.json` is a
    model of several files; a folder, and a repository `hf://owner/name`, the model in it.

    access           "private": tensors are views of a private map of the file; they may be changed in memory, the file never is
                     "map": views of a read-only map
                     "read": no map; each is read into memory of its own when its bytes are asked for
                     "auto": "read" of URLs and on network file systems, where maps are slow and may end the process; else "private"
    populate         fault the whole map in when it is made
    max_header_size  in bytes; 0 is the format's own limit, 100 MB
    unknown_dtypes   accept dtypes that this version does not know
    format           what the file has to be, "safetensors" or "bintensors"; None: what its content says. "bintensors-a",
                     layout A, of files from before version 0.1, is never found by content
    verify           hold each tensor against the digest that its file records when its bytes are first wanted: an Error takes the place
                     of damaged bytes. Files that record none cannot be opened so
    token            for the Hugging Face Hub; "" sends none. None: what the environment has, docs/network.md says where
    timeout          seconds that a server may say nothing; None: COFFER_NET_TIMEOUT, else 30
    partial          open a file that ends before its data do, for the tensors that are whole (Tensor.whole); the bytes of others are
                     an Error
    progress         called now and then while servers are waited for, with the files whose headers were read, and those in all
    formats          which files of other programs are opened, at a path or URL, and read as they are converted: "all", also PyTorch's and
                     other pickles, of which nothing is run; "plain": GGUF, NumPy, ONNX, Keras and others without pickles; "own": none.
                     With `format` or `partial` there are none. Tensor.stored says how a tensor lies there
    """
    return File(
        Model.open(
            source,
            access=access,
            populate=populate,
            max_header_size=max_header_size,
            unknown_dtypes=unknown_dtypes,
            format=format,
            verify=verify,
            token=token,
            timeout=timeout,
            partial=partial,
            progress=progress,
            formats=formats,
        )
    )
