"""What a measurement is once it is read, whatever file it came from: points, curves, what was left
out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from topologies.errors import InputError

COLLECTIVES = (
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "broadcast",
    "reduce",
    "send_recv",
    "gather",
    "scatter",
    "hypercube",
    "barrier",
)
UNKNOWN = "unknown"
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
"""The note of a curve of nccl-tests whose test does not say that it ended."""
WITHOUT_ROWS = "without rows"
"""What `skipped` says of a table that is also one of the `failures`."""

_SHORT = {"ar": "all_reduce", "ag": "all_gather", "rs": "reduce_scatter", "a2a": "all_to_all"}
_SHORT |= {"bc": "broadcast", "bcast": "broadcast", "sr": "send_recv", "p2p": "send_recv"}
_NAMES = _SHORT | {name.replace("_", ""): name for name in COLLECTIVES}
_SHOWN = 10


def canonical(name: str) -> str | None:
    """The one spelling of a collective's name that this project uses, or None for a name it does
    not know.

    >>> canonical("alltoall"), canonical("All-Reduce"), canonical("bc"), canonical("allmost")
    ('all_to_all', 'all_reduce', 'broadcast', None)
    """
    return _NAMES.get(name.strip().lower().replace("_", "").replace("-", ""))


def tally(noun: str, rest: str, lines: Sequence[int], place: str = "line") -> str:
    """A count of lines (or of other places) in words.

    >>> tally("row", "torn beyond repair", [41, 77])
    '2 rows torn beyond repair: line 41, line 77'
    """
    shown = ", ".join(f"{place} {line}" for line in lines[:_SHOWN])
    more = f" and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else ""
    return f"{len(lines)} {noun}{'s' if len(lines) != 1 else ''} {rest}: {shown}{more}"


@dataclass(frozen=True)
class Point:
    """One size and the time one collective of that size took.

    `size` is in bytes as nccl-tests counts them (all-gather, reduce-scatter and all-to-all: the
    total array; scatter and gather: the root's whole buffer), `time_s` in seconds; both are above
    zero, but for a barrier's size of 0. `wrong` counts the wrong elements, None where nobody
    checked. `cv` is the standard deviation over the mean of the repetitions (0.03: 3%),
    `repetitions` how many there were; `min_s`, `p90_s` and `mean_s` are their least time, 90th
    percentile and mean in seconds. None: the file does not tell.
    """

    size: int
    time_s: float
    wrong: int | None = None
    cv: float | None = None
    repetitions: int | None = None
    min_s: float | None = None
    p90_s: float | None = None
    mean_s: float | None = None


@dataclass(frozen=True)
class Curve:
    """One collective on one set of ranks over several sizes, in ascending order of size.

    `points` are out of place, `in_place` the same sizes in place where that was measured.
    `collective` is one of `COLLECTIVES` or "unknown"; `ranks`, `nodes` and `gpus_per_node` (ranks a
    node) are None where the file does not tell. `source` names the file, and in a log the line of
    the table's header; or what a CSV's column `source` says. `notes` say what a reader of the
    numbers should know.

    `algorithm` is simctl's name where the word is known (see `spellings.canonical_algorithm`), else
    the library's own word, empty where the library chose; so is `protocol` ("LL", "LL128",
    "Simple", "eager", "rendezvous"). `library` is the library and its version, `backend` what
    torch.distributed calls it, `device` the GPU's model or the kind of memory, `dtype` the element
    type, `topology` and `machine` the machine in words, `family` the series that an index.csv puts
    the curve in. All are empty where the file does not tell. `kind`, one of `KINDS`, is what the
    benchmark measures. `hosts` are the names of the nodes, `network` is one of `networks.NETWORKS`,
    `variables` are those of the library that the file sets (NCCL_DEBUG: to INFO or TRACE). `alone`:
    a process that was meant as a part of a job ran as a job of its own. `capped`: the benchmark
    itself lowered its largest size for lack of memory, so the curve's early end is no fault.
    """

    collective: str
    ranks: int | None
    nodes: int | None
    points: tuple[Point, ...]
    in_place: tuple[Point, ...]
    source: str
    notes: tuple[str, ...] = ()
    algorithm: str = ""
    protocol: str = ""
    library: str = ""
    gpus_per_node: int | None = None
    backend: str = ""
    device: str = ""
    dtype: str = ""
    topology: str = ""
    family: str = ""
    machine: str = ""
    capped: bool = False
    kind: str = COLLECTIVE
    hosts: tuple[str, ...] = ()
    alone: bool = False
    network: str = ""
    variables: tuple[str, ...] = ()

    @property
    def streams(self) -> bool:
        """Whether its times are size over the bandwidth of many messages in flight (osu_bw and
        kin)."""
        return self.kind.endswith("bandwidth")


class Failure(NamedTuple):
    """A test that did not do what was meant: `kind` in two words, `source` as of a curve, and
    `text` in words."""

    kind: str
    source: str
    text: str


@dataclass(frozen=True)
class Measurements:
    """Everything read from one file or several; `skipped` says, counted and by place, what was not
    read and why, and `failures` which tests died or were started wrongly."""

    curves: tuple[Curve, ...]
    skipped: tuple[str, ...] = ()
    failures: tuple[Failure, ...] = ()


class Unmeasured(InputError):
    """A file without a usable row, whose tests failed."""

    def __init__(self, message: str, failures: tuple[Failure, ...]) -> None:
        super().__init__(message)
        self.failures = failures


def nothing(message: str, failures: Sequence[Failure]) -> InputError:
    """The error of a file without a usable row."""
    return Unmeasured(message, tuple(failures)) if failures else InputError(message)
