"""What NCCL says that it runs: lines of NCCL_DEBUG=INFO with NCCL_DEBUG_SUBSYS=TUNING
(src/enqueue.cc), one a call, of rank 0."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from experiments.measurements.collectives import PARTS, canonical
from experiments.spellings import canonical_algorithm, canonical_protocol

_CHOICE = re.compile(
    r"NCCL INFO (?:(\w{1,30}): )?([0-9]{1,18}) Bytes -> Algo (\w{1,30}) proto (\w{1,20})\b"
)
_ALGORITHMS = ("tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat")
_PROTOCOLS = ("LL", "LL128", "Simple")
"""What the numbers stand for that versions before 2.24 print (src/include/nccl_common.h)."""

Choices = dict[tuple[str, int], set[tuple[str, str]]]
"""The algorithms and protocols of each collective and its bytes. Before 2.23 no line names a
collective: it is empty."""


def add_choice(choices: Choices, line: str) -> None:
    """Add what a line says that NCCL runs.

    >>> choices: Choices = {}
    >>> add_choice(choices, "a:1:2 [0] NCCL INFO AllReduce: 8 Bytes -> Algo RING proto LL channel")
    >>> choices
    {('all_reduce', 8): {('RING', 'LL')}}
    """
    if match := _CHOICE.search(line):
        word, size, *labels = match.groups()
        key = canonical(word or "") or "", int(size)
        choices.setdefault(key, set()).add((labels[0], labels[1]))


def labels_of(
    choices: Choices, collective: str, ranks: int | None, sizes: Iterable[int]
) -> Mapping[int, tuple[str, str]]:
    """The algorithm and the protocol of each size of a table, where NCCL names one of both.

    Lines of newer versions have the bytes of one rank, and those of older ones all.
    """
    named = {size: labels for (name, size), labels in choices.items() if name in ("", collective)}
    parts = ranks if ranks and collective in PARTS else 1
    table = [*sizes]
    whole, of_a_rank = (
        {size: named[size // each] for size in table if size // each in named}
        for each in (1, parts)
    )
    by_size = whole if len(whole) >= len(of_a_rank) else of_a_rank
    return {
        size: _label(*next(iter(labels)), collective)
        for size, labels in by_size.items()
        if len(labels) == 1
    }


def _label(algorithm: str, protocol: str, collective: str) -> tuple[str, str]:
    if algorithm.isdigit():
        algorithm = dict(enumerate(_ALGORITHMS)).get(int(algorithm), algorithm)
    if protocol.isdigit():
        protocol = dict(enumerate(_PROTOCOLS)).get(int(protocol), protocol)
    return canonical_algorithm(algorithm, collective), canonical_protocol(protocol)
