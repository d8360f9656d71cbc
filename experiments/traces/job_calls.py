"""Calls of a job: what the trace of a rank says of them, and the same call of all ranks."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, nan, prod
from statistics import median
from typing import TYPE_CHECKING, NamedTuple, TypeGuard

import numpy as np
import numpy.typing as npt

from experiments.measurements.collectives import canonical
from topologies.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

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
NAMES = {"allreducebarrier": "barrier", "send": "send", "recv": "recv", "sendrecv": "send"}
"""Our names of what torch and NCCL call, without signs and in lower case, and not by
:func:`experiments.measurements.collectives.canonical`."""
_VARIANT = re.compile(r"(?:intotensor|tensor|single|base|coalesced|oop|v)+$")
"""How torch's names of the variants of a collective end."""
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
    members: str = ""
    """The ranks of the group, like "0, 1", if the trace has them."""


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
    return NAMES.get(plain) or canonical(_VARIANT.sub("", plain)) or word[:40]


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


UNKNOWN_COMPUTING = 1e3
"""Seconds without communication before the first call of a trace, and before each call of a dump:
nobody knows them."""
CALL = ["group", "number"]
"""The columns that tell calls apart."""
FEWEST_ROUNDS = 4
"""Rounds from which on a rank can be a straggler."""


@dataclass(frozen=True, eq=False)
class JobCalls:
    """The traces of a job, read together. Raises InputError if no two ranks have a call in
    common."""

    traces: Sequence[RankTrace]

    def __post_init__(self) -> None:
        if not any(len(rows) > 1 for rows in self.matched.values()):
            first, second = self.traces[0].source, self.traces[1].source
            raise InputError(
                f"{first} and {second} have no collective in common: give traces of the same steps "
                f"of one job"
            )

    @cached_property
    def matched(self) -> dict[tuple[str, int], dict[int, MeasuredCall]]:
        """The calls by group and number, each by rank."""
        calls: dict[tuple[str, int], dict[int, MeasuredCall]] = defaultdict(dict)
        every = (call for trace in self.traces for call in trace.calls if call.members)
        kinds: dict[str, list[str]] = defaultdict(list)
        for group, members in sorted({(call.group, call.members) for call in every}):
            kinds[group].append(members)
        names = {
            (group, members): f"{group} of ranks {members[:40]} ({number})"
            for group, alike in kinds.items()
            for number, members in enumerate(alike, 1)
            if len(alike) > 1
        }
        for trace in self.traces:
            for call in trace.calls:
                name = names.get((call.group, call.members), call.group)
                calls[name, call.number][trace.rank] = call
        return dict(calls)

    @cached_property
    def listed(self) -> dict[str, set[int]]:
        """The ranks of the groups whose traces say so."""
        texts = {
            group: call.members
            for (group, _), calls in self.matched.items()
            for call in calls.values()
            if call.members
        }
        return {group: {*map(int, text.split(", "))} for group, text in texts.items()}

    @cached_property
    def members(self) -> dict[str, set[int]]:
        """The ranks of each group that have a trace: those listed, else all if the group has as
        many, else those that have calls of it."""
        members: dict[str, set[int]] = defaultdict(set)
        everyone = {trace.rank for trace in self.traces}
        for (group, _), calls in self.matched.items():
            all_call = any(call.size == len(everyone) for call in calls.values())
            members[group] |= everyone if all_call else calls.keys()
        return {group: self.listed.get(group, ranks) & everyone for group, ranks in members.items()}

    @cached_property
    def clocks(self) -> dict[int, float]:
        """What the clock of each rank is ahead, in nanoseconds.

        All ranks leave a collective at about the same time. So the median difference between the
        end of a rank and the median end is a difference of clocks.
        """
        ahead: dict[int, list[float]] = defaultdict(list)
        for calls in self.matched.values():
            ends = {
                rank: call.start + call.nanoseconds
                for rank, call in calls.items()
                if call.nanoseconds is not None
            }
            if len(ends) == len(calls) > 1 and alike(calls):
                middle = median(ends.values())
                for rank, end in ends.items():
                    ahead[rank].append(end - middle)
        kineto = not any(trace.records_all for trace in self.traces)
        return {
            trace.rank: median(ahead[trace.rank]) if kineto and ahead[trace.rank] else 0.0
            for trace in self.traces
        }

    @cached_property
    def arrivals(self) -> pd.DataFrame:
        """The calls that all ranks of their group made, with a row for each rank of a call.

        - group, number, collective, nbytes (V, of ranks that differ the largest), ranks (how many)
        - rank, arrival (when it got there, in seconds, on one clock), took (how long it took the
          rank, if all ranks say that)
        - computed: for how many seconds the rank did not communicate before
        - first, latest, last: the first and the latest arrival, and the rank that was last
        - seconds: what it takes when all are there, the time of the rank that waited least
        """
        import pandas as pd

        origin = min(call.start for calls in self.matched.values() for call in calls.values())
        rows = []
        for (group, number), calls in self.matched.items():
            if len(calls) < 2 or calls.keys() != self.members[group] or not alike(calls):
                continue
            sizes = [call.nbytes for call in calls.values() if call.nbytes is not None]
            timed = all(call.nanoseconds is not None for call in calls.values())
            for rank, call in sorted(calls.items()):
                kind = group, number, call.collective, max(sizes, default=nan), len(calls)
                arrival = (call.start - origin - self.clocks[rank]) / 1e9
                took = (call.nanoseconds or 0) / 1e9 if timed else nan
                away = UNKNOWN_COMPUTING + arrival if call.computed is None else call.computed / 1e9
                rows.append((*kind, rank, arrival, took, away))
        names = [*CALL, "collective", "nbytes", "ranks", "rank", "arrival", "took", "computed"]
        table = pd.DataFrame(rows, columns=names).astype(dict.fromkeys(names[-3:], float))
        table = table.sort_values([*CALL, "arrival", "rank"], ascending=[True, True, False, True])
        by_call = table.groupby(CALL)
        return table.assign(
            first=by_call["arrival"].transform("last"),
            latest=by_call["arrival"].transform("first"),
            last=by_call["rank"].transform("first"),
            seconds=by_call["took"].transform("min"),
        )

    @cached_property
    def calls(self) -> pd.DataFrame:
        """A row for each of these calls."""
        return self.arrivals.drop_duplicates(CALL)

    @cached_property
    def rounds(self) -> pd.DataFrame:
        """The arrivals of calls that come after long computing, like the first of each step.

        Where communication takes longest, other calls begin when the call before ends, whoever
        is slow. Dumps do not say how long a rank computed: there the calls with a long wait count.
        Long is half of the fourth longest time, so a few pauses do not count.
        """
        by_call = self.arrivals.groupby(CALL)
        times = by_call["computed"].transform("min")
        if any(trace.records_all for trace in self.traces):
            times = self.arrivals["latest"] - by_call["arrival"].transform("median")
        long = times[self.calls.index].nlargest(FEWEST_ROUNDS).min() / 2
        return self.arrivals[times >= (long if long > 0 else inf)]

    @property
    def seconds(self) -> float:
        """From the first call to the last."""
        starts = self.calls["first"]
        return float(starts.max() - starts.min()) if len(starts) else 0.0


def alike(rows: Mapping[int, MeasuredCall]) -> bool:
    """Whether all ranks called the same."""
    kinds = {call.collective for call in rows.values()}
    sizes = {call.nbytes for call in rows.values()}
    # Ranks may call these with different sizes.
    return len(kinds) == 1 and (len(sizes) == 1 or bool(kinds & {"all_to_all", "barrier"}))
