"""What the trace of a rank says of the collectives that it called."""

from __future__ import annotations

from math import prod
from typing import NamedTuple, TypeGuard

import numpy as np
import numpy.typing as npt

WIDTHS = {
    "Double": 8,
    "Long": 8,
    "Float": 4,
    "Int": 4,
    "Half": 2,
    "BFloat16": 2,
    "Short": 2,
    "Byte": 1,
    "Char": 1,
    "Bool": 1,
    "Float8_e4m3fn": 1,
    "Float8_e5m2": 1,
}
"""Bytes of an element, by torch's name of its type."""
NAMES = {
    "allreduce": "all_reduce",
    "allreducecoalesced": "all_reduce",
    "allgather": "all_gather",
    "allgatherbase": "all_gather",
    "allgatherintotensorcoalesced": "all_gather",
    "reducescatter": "reduce_scatter",
    "reducescatterbase": "reduce_scatter",
    "reducescattertensorcoalesced": "reduce_scatter",
    "alltoall": "all_to_all",
    "alltoallbase": "all_to_all",
    "alltoallv": "all_to_all",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "gather": "gather",
    "scatter": "scatter",
    "barrier": "barrier",
    "allreducebarrier": "barrier",
    "send": "send",
    "recv": "recv",
    "sendrecv": "send",
}
"""Our names of what torch and NCCL call, without signs and in lower case."""
MESSAGES = ("send", "recv")
"""Calls of two ranks."""
Nanoseconds = npt.NDArray[np.int64]


class MeasuredCall(NamedTuple):
    """A collective as a rank called it. Times are of the rank's clock."""

    group: str
    number: int
    """The number of the call in its group."""
    collective: str
    nbytes: float | None
    """V, if the trace has it."""
    size: int
    """The ranks of the group; 0 if the trace does not say."""
    start: int
    """When the rank got there, in nanoseconds."""
    nanoseconds: int | None = None
    """How long it took, waiting for others included."""
    done: bool = True
    computed: int | None = None
    """For how many nanoseconds the rank did not communicate before, if the trace has that."""


class RankTrace(NamedTuple):
    """The calls of a rank."""

    rank: int
    source: str
    """The name of its file."""
    calls: list[MeasuredCall]
    computing: Nanoseconds | None = None
    """When it computed, shape (2, n), if the trace has that."""
    talking: Nanoseconds | None = None
    """When it communicated, likewise."""
    records_all: bool = False
    """Whether a call that is not there after the first one was not made."""


def collective_of(name: str) -> str:
    """Our name of a collective; a name that we do not know stays.

    >>> collective_of("_allgather_base"), collective_of("nccl:all_reduce"), collective_of("x")
    ('all_gather', 'all_reduce', 'x')
    """
    word = name[:200].rpartition(":")[2].partition(" ")[0]
    plain = "".join(letter for letter in word.lower() if letter.isalpha() or letter.isdigit())
    return NAMES.get(plain, word[:40])


def size_of(collective: str, taken: float | None, given: float | None) -> float | None:
    """V from the bytes that a rank puts in and those that it gets out."""
    return given if collective in ("all_gather", "gather") else taken


def tensor_bytes(sizes: object, dtypes: object) -> float | None:
    """Bytes of tensors from lists of their shapes and types; None if these are no such lists."""
    if not isinstance(sizes, list) or not isinstance(dtypes, list) or len(sizes) > 2**12:
        return None
    total = 0.0
    for shape, dtype in zip(sizes, dtypes, strict=False):
        known = isinstance(shape, list) and len(shape) <= 16
        whole = known and all(is_count(number) for number in shape)
        if not whole or not isinstance(dtype, str) or dtype not in WIDTHS:
            return None
        total += prod(map(float, shape)) * WIDTHS[dtype]
    return total if total < 2**63 else None


def is_count(value: object) -> TypeGuard[int]:
    """Whether a value is a whole number from 0 to 2^63 - 1."""
    return type(value) is int and 0 <= value < 2**63
