"""A measurement, whatever file it comes from: points, curves, and tests that failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, NamedTuple

from experiments.measurements.networks import Ports
from experiments.output import counted
from experiments.text_lines import first_of
from topologies.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

COLLECTIVE = "collective"
KINDS = (
    COLLECTIVE,
    "latency",
    "multi-pair latency",
    "bandwidth",
    "bidirectional bandwidth",
    "multi-pair bandwidth",
)
"""What a benchmark measures: the time of a collective; the time of one message, of one pair of
ranks or of several at once; or size over the bandwidth of many messages in flight."""

NO_FOOTER = "no footer below the table: the log may be cut short"
"""The note of a curve of nccl-tests that is `unfinished`."""
TRAYS = "taken as trays"
"""In the note of a curve whose hosts are trays of a node."""
WAITING = "times may contain waiting"
"""In the note of a curve whose ranks may have waited for others."""
GUESSED = "size taken as the middle of its range"
"""In the note of a curve whose file tells sizes roughly."""
WITHOUT_ROWS = "without rows"
"""What `skipped` says of a table that is also one of the `failures`."""
DIED = "test died"
"""The kind of failure of a test that ended early."""
ALONE = "without MPI"
"""The kind of failure of processes that were started as one job and did not join it."""

_SHOWN_LINES = 10
_LIBRARY_FAMILIES = {
    "gloo": ("gloo",),
    "nccl": ("nccl", "rccl"),
    "fujitsu": ("fujitsu",),
    "mpi": ("mpi", "omb"),
}
"""Families of libraries, and the words that name them, in the order in which they count."""
_COLUMN_TYPES = {
    "str": "string",
    "bool": "bool",
    "int": "int64",
    "int | None": "Int64",
    "float": "float64",
    "float | None": "float64",
}
"""Types of fields, and those of the columns of a table."""


def tally(noun: str, rest: str, lines: Sequence[int], place: str = "line") -> str:
    """A count of lines (or of other places) in words.

    >>> tally("row", "torn beyond repair", [41, 77])
    '2 rows torn beyond repair: line 41, line 77'
    """
    places = first_of([f"{place} {line}" for line in lines], _SHOWN_LINES)
    return f"{counted(len(lines), noun)} {rest}: {places}"


Skipped = dict[str, list[int]]
"""What a reader of tables left out: the lines by the reason, one of `_REASONS`."""
_REASONS = {
    "torn": ("row", "torn beyond repair"),
    "unreadable": ("row", "without the values expected"),
    "orphan": ("row", "without a table header above"),
    "inconsistent": ("row", "inconsistent (size / time is not the algbw printed)"),
    "infinite": ("row", "with a number that is not finite"),
    "empty": ("row", "of size 0"),
    "unmeasured": ("row", "of size or time 0"),
    "untimed": ("row", "with a time of 0 or N/A"),
    "pairs": ("table", "of all pairs together that does not say how many"),
    "bare": ("table", WITHOUT_ROWS),
    "unknown": ("test", "of a kind or with columns not known here"),
    "long": ("line", "too long to read"),
}


def skipped_lines(skipped: Mapping[str, Sequence[int]], place: str = "line") -> tuple[str, ...]:
    """What was skipped, in words, a line for each reason.

    >>> skipped_lines({"torn": [77, 41, 77]})
    ('2 rows torn beyond repair: line 41, line 77',)
    """
    return tuple(
        tally(noun, rest, sorted({*skipped[reason]}), place)
        for reason, (noun, rest) in _REASONS.items()
        if skipped.get(reason)
    )


def ranks_per_node(ranks: int | None, nodes: int | None) -> int | None:
    """The ranks of each node; None if they are not known, or not as many on each."""
    return ranks // nodes if ranks and nodes and ranks % nodes == 0 else None


@dataclass(frozen=True)
class Point:
    """One size, and the time of one collective of that size. None: the file does not tell."""

    size: int
    """Bytes as nccl-tests counts them, above 0 but for a barrier. All-gather, reduce-scatter and
    all-to-all count the total array, scatter and gather the root's whole buffer."""
    time_s: float
    """Seconds, above 0."""
    wrong: int | None = None
    """Wrong elements; None if nobody checked."""
    cv: float | None = None
    """Standard deviation over mean of the repetitions (0.03: 3%)."""
    repetitions: int | None = None
    min_s: float | None = None
    """Seconds of the fastest repetition."""
    p90_s: float | None = None
    """Seconds of the 90th percentile."""
    mean_s: float | None = None
    ran: str = field(default="", kw_only=True)
    """The algorithm and the protocol that the library says it ran, like "ring LL128"."""


@dataclass(frozen=True)
class Curve:
    """One collective on one set of ranks over several sizes.

    None and empty texts say that the file does not tell. The reader of a file fills all fields, so
    that nothing else has to read notes or descriptions.
    """

    collective: str
    """One of `COLLECTIVES`, or "unknown"."""
    ranks: int | None
    """Ranks that took part."""
    nodes: int | None
    """Nodes that they were on."""
    points: tuple[Point, ...]
    """Times out of place, by ascending size."""
    in_place: tuple[Point, ...]
    """Times in place, by ascending size."""
    source: str = ""
    """The file, with the line of the table's header in a log; or a CSV's column `source`."""
    notes: tuple[str, ...] = ()
    """What a reader of the numbers should know."""
    algorithm: str = ""
    """The algorithm that was forced, by simctl's name if it has one; empty if the library chose."""
    protocol: str = ""
    """The protocol that was forced: "LL", "LL128", "Simple", "eager", "rendezvous" or another."""
    library: str = ""
    gpus_per_node: int | None = None
    """Ranks of a node."""
    backend: str = ""
    """What torch.distributed calls the library."""
    device: str = ""
    """The model of the GPUs, or the kind of memory."""
    dtype: str = ""
    topology: str = ""
    """The machine in words, by a CSV's column."""
    family: str = ""
    """The series that an index puts the curve in."""
    machine: str = ""
    """The machine in words, by an index."""
    capped: bool = False
    """Whether the benchmark lowered its largest size for lack of memory: the end is no fault."""
    kind: str = COLLECTIVE
    """What the benchmark measures, one of `KINDS`."""
    hosts: tuple[str, ...] = ()
    alone: bool = False
    """Whether a process that was meant as a part of a job ran as a job of its own."""
    network: str = ""
    """The network between nodes, one of `networks.NETWORKS`."""
    variables: tuple[str, ...] = ()
    """The library's variables that the file sets (NCCL_DEBUG: to INFO or TRACE)."""
    log: str = ""
    """The log that holds the curve as one of its tables."""
    unfinished: bool = False
    """Whether a log does not say that the test ended."""
    label: str = ""
    """What an index says of the algorithm, in its own words."""
    ignored_algorithm: str = ""
    """The algorithm that the run asked for and that had no effect, by an index."""
    pairs: bool = False
    """Whether half of the ranks sent to the other half at once."""
    single_node: bool = False
    """Whether the machine has no network between nodes, by an index."""
    ports: Ports | None = None
    """The network ports of a node, by an index."""

    @property
    def pattern(self) -> str:
        """The collective whose messages the times are of. Where pairs of ranks measure latencies at
        once, it is "ping_pong"."""
        ping_pong = self.pairs and self.kind == "multi-pair latency"
        return "ping_pong" if ping_pong else self.collective

    @property
    def by_label(self) -> tuple[Curve, ...]:
        """The curve in parts, each of one algorithm and protocol that the library says it ran."""
        labels = dict.fromkeys(point.ran for point in (*self.points, *self.in_place))
        if labels.keys() <= {""}:
            return (self,)
        return tuple(self._labelled(label) for label in labels)

    def _labelled(self, label: str) -> Curve:
        algorithm, _, protocol = label.partition(" ")
        points, in_place = (
            tuple(point for point in column if point.ran == label)
            for column in (self.points, self.in_place)
        )
        algorithm, protocol = algorithm or self.algorithm, protocol or self.protocol
        return replace(
            self, points=points, in_place=in_place, algorithm=algorithm, protocol=protocol
        )

    @property
    def streams(self) -> bool:
        """Whether times are size over the bandwidth of many messages in flight (osu_bw and
        similar)."""
        return self.kind.endswith("bandwidth")

    @property
    def on_host(self) -> bool:
        """Whether the buffers are in the host's memory, by the device's name or the backend."""
        if self.device:
            return self.device.lower().startswith(("cpu", "host"))
        return self.backend in ("gloo", "mpi")

    @property
    def uses_mpi(self) -> bool:
        """Whether an MPI library moved the data, as far as the file tells."""
        return "MPI" in self.library.upper() or self.backend == "mpi" or self.on_host

    @property
    def library_family(self) -> str:
        """The library without its version: "nccl" (RCCL, too), "mpi", "fujitsu" or "gloo".

        Without a name of a library, runs on GPUs are of NCCL. Empty if the file does not tell.
        """
        words = f"{self.library} {self.backend}".lower()
        for family, names in _LIBRARY_FAMILIES.items():
            if any(name in words for name in names):
                return family
        on_gpus = self.machine and "cpu" not in self.machine.lower()
        return "nccl" if "ccl" in words or "nccl" in self.source.lower() or on_gpus else ""

    def to_frame(self) -> pd.DataFrame:
        """A table with a row for each point: the point's fields, whether it is in place, and the
        fields of the curve that are texts, numbers or yes and no.

        Whole numbers that the file does not tell are <NA>, other numbers NaN, texts empty.
        """
        import pandas as pd

        types = _columns(Curve) | {"in_place": "bool"} | _columns(Point)
        curve = {name: getattr(self, name) for name in _columns(Curve)}
        rows = [
            curve | {"in_place": in_place} | vars(point)
            for in_place, points in ((False, self.points), (True, self.in_place))
            for point in points
        ]
        table = pd.DataFrame(rows, columns=list(types)).astype(types)
        return table.rename(columns={"size": "size_B"})


def _columns(record: type[Curve | Point]) -> dict[str, str]:
    """The fields of a record that are one value, and the pandas type of each."""
    return {
        each.name: _COLUMN_TYPES[str(each.type)]
        for each in fields(record)
        if str(each.type) in _COLUMN_TYPES
    }


class Failure(NamedTuple):
    """A test that did not do what was meant."""

    kind: str
    """`DIED` or `ALONE`."""
    source: str
    """The file and line, as of a curve."""
    text: str


@dataclass(frozen=True)
class Measurements:
    """Everything that one or several files hold."""

    curves: tuple[Curve, ...]
    """The curves, in the order of the files."""
    skipped: tuple[str, ...] = ()
    """What was not read and why, counted and by place."""
    failures: tuple[Failure, ...] = ()
    """Tests that died or were started wrongly."""

    def to_frame(self) -> pd.DataFrame:
        """The tables of all curves, one below the other."""
        import pandas as pd

        return pd.concat([curve.to_frame() for curve in self.curves], ignore_index=True)

    def __repr__(self) -> str:
        lines = (
            f"  {curve.collective}, {len(curve.points)} sizes, {curve.source}"
            for curve in self.curves[:_SHOWN_LINES]
        )
        return "\n".join([f"Measurements, curves: {len(self.curves)}", *lines])


class Unmeasured(InputError):
    """A file without a usable row, whose tests failed."""

    def __init__(self, message: str, failures: tuple[Failure, ...]) -> None:
        super().__init__(message)
        self.failures = failures


def no_rows(message: str, failures: Sequence[Failure]) -> InputError:
    """The error of a file without a usable row."""
    return Unmeasured(message, tuple(failures)) if failures else InputError(message)
