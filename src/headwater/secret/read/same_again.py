"""Files that hold what was read already, under whatever name: they are refused, so that no record counts twice."""

from __future__ import annotations

import os
from collections.abc import Iterable

from headwater.secret.read.options import InputChangedError
from headwater.secret.read.paths import Input, age, related
from headwater.secret.read.seals import EDGE, Seal, Seals, edges_at, edges_digest, text_edges
from headwater.secret.read.stream import DAMAGED

SMALL = 64
"""A file of fewer bytes may well hold the same as another one."""


def refuse_same(source: Input, seals: Iterable[Seal], encoding: str | None = None) -> None:
    """Raise an error if a file that is about to be begun is as long as one that was read, and begins and ends alike.

    It is compared once, before any record of it is taken. Of standard input and of pipes nothing can be known.

    Parameters
    ----------
    source
        The file.
    seals
        All files that were read to their ends. Small ones, and those without records, are equal to many others.
    encoding
        Of text.
    """
    known = {(seal.size, seal.digest): seal for seal in seals if seal.size >= SMALL and seal.records}
    if not known or source.path is None or not os.path.isfile(source.name):
        return
    found = known.get(_bytes_edges(source.name)) if source.compression is None else None
    if found is None and _is_converted(source, encoding):
        edges = text_edges(source, encoding, max(size for size, _ in known))
        found = known.get(edges) if edges is not None else None
    if found is not None:
        problem = f"the file holds what was read as {found.name}: it is as long, and begins and ends alike"
        remedy = "leave it out, since no record may count twice"
        raise _refusal(source.name, problem, remedy, "it holds other records that are the same")


def refuse_outgrown(source: Input, seals: Seals) -> None:
    """Raise an error if a file that is about to be begun is one that was read, with more written to it since.

    Its name is another one now. Nothing says where the new records begin, and the others must not count twice.
    """
    found = seals.outgrown(source, SMALL)
    if found is not None:
        raise outgrown(source.name, found)


def outgrown(name: str, seal: Seal) -> InputChangedError:
    """The error for a file that was renamed, was read to its end, and was written to after that."""
    problem = f"the file begins with what was read to its end as {seal.name}: more was written to it after that"
    remedy = (
        "cut off the records that were read and name it as well, or move it away if what was added is not to be "
        "counted, and let the writer go over to the new log when a log is renamed"
    )
    return _refusal(name, problem, remedy, "all its records are new")


def refuse_half(source: Input, beside: Iterable[Input], seals: Seals, encoding: str | None = None) -> None:
    """Raise an error if a file that is about to be begun is the beginning of one ``beside`` it that is done.

    Copies get the names of older logs. One that was never completed, as after a kill, stays when the log is done. One
    that is compressed and cut short may be such a copy, and is refused before any record of it counts.
    """
    younger = [one for one in beside if related(one.key, source.key) and age(source.key) < age(one.key)]
    done = [one for one in younger if seals.claims(one)]
    edges = text_edges(source, encoding, 1 << 62) if done else (0, "")
    if edges is None and source.compression is not None:
        raise DAMAGED.at(file=source.name)
    if edges is None or edges[0] < SMALL:
        return
    for one in done:
        if edges in edges_at(one, encoding, {edges[0]}).items():
            problem = f"the file holds the beginning of {one.name}, which was read to its end: half of a copy of it"
            raise _refusal(source.name, problem, "remove it", "it holds other records that are the same")


def _refusal(name: str, problem: str, remedy: str, otherwise: str) -> InputChangedError:
    """The error for a file whose records have counted, as far as can be known, and what to say if they have not."""
    says = "same_again (headwater run --same-again, headwater.read(..., same_again=True))"
    return InputChangedError(problem, f"{remedy}; or, if {otherwise}, say so with {says}", file=name)


def _bytes_edges(path: str) -> tuple[int, str]:
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            head = file.read(EDGE)
            file.seek(max(size - EDGE, 0))
            return size, edges_digest(head, file.read(EDGE))
    except OSError:  # the reader says what is wrong
        return 0, ""


def _is_converted(source: Input, encoding: str | None) -> bool:
    """Whether what is read of a file is not what lies there: it is compressed, recoded, or a JSON array."""
    if source.compression is not None or (encoding is not None and (source.format == "csv" or source.is_json)):
        return True
    if source.format != "json":
        return False
    try:
        with open(source.name, "rb") as file:
            return file.read(EDGE).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"[")
    except OSError:
        return False
