"""Logs of nccl-tests written line by line, and what is read of them."""

from dataclasses import replace

from experiments.measurements import Curve, Measurements, Point
from experiments.measurements.formats.log_reader import parse_log

INFO = "node1:4242:4250 [0] NCCL INFO Channel 00 : 0 1 2 3"

PLACES = "#" + 62 * " " + "out-of-place" + 23 * " " + "in-place"
HEADER = (
    "#       size         count      type   redop    root" + 2 * "     time   algbw   busbw #wrong"
)
UNITS = (
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            "
    "(us)  (GB/s)  (GB/s)"
)
OLD_HEADER = (
    "#       size         count    type   redop     time   algbw   busbw  error     time   algbw "
    "  busbw  error"
)
SIZES = (8, 1024, 131072, 16777216)
TIMES = ("20.31", "21.92", "40.57", "1311.4")
IN_PLACE = ("19.88", "21.05", "39.93", "1302.7")


def cell(size: int, time_us: str, wrong: str = "0", factor: float = 1.5) -> str:
    """Time, algbw, busbw and #wrong of one place; the bus factor of four ranks."""
    algbw = size / float(time_us) / 1e3
    return f"  {time_us:>7}  {algbw:6.2f}  {factor * algbw:6.2f}  {wrong:>5}"


def row(
    size: int,
    time_us: str,
    in_place_us: str = "",
    wrong: str = "0",
    start: str = "float     sum      -1",
) -> str:
    """A line of the table, out-of-place and perhaps in-place."""
    second = cell(size, in_place_us) if in_place_us else ""
    return f"{size:12d}  {size // 4:12d}     {start}{cell(size, time_us, wrong)}{second}"


def rows() -> list[str]:
    """The table of `WHOLE`."""
    return [row(*entry) for entry in zip(SIZES, TIMES, IN_PLACE, strict=True)]


def devices(ranks: int = 4, each: int = 2) -> list[str]:
    """The list of devices, `each` to a node."""
    form = "#  Rank {0:2d} Group  0 Pid {1:6d} on      node{2} device {3:2d} [0x0{3}] NVIDIA H100"
    return [form.format(rank, 4200 + rank, 1 + rank // each, rank % each) for rank in range(ranks)]


def preamble(name: str = "all_reduce", ranks: int = 4) -> list[str]:
    """All that stands above the rows."""
    start = [
        f"# Collective test starting: {name}_perf",
        "# nThread 1 nGpus 1 minBytes 8 maxBytes 16777216 step: 128(factor) warmup iters: 5 "
        "iters: 20 validation: 1",
        "#",
        "# Using devices",
    ]
    return [*start, *devices(ranks), "#", PLACES, HEADER, UNITS]


FOOTER = ["# Out of bounds values : 0 OK", "# Avg bus bandwidth    : 12.5", "#"]


def log(*body: str, name: str = "all_reduce", ranks: int = 4) -> str:
    """A whole log; by default that of `WHOLE`."""
    return "\n".join([*preamble(name, ranks), *(body or rows()), *FOOTER]) + "\n"


def parse(text: str) -> Measurements:
    return parse_log(text, "x.log")


def only(text: str) -> Curve:
    (curve,) = parse(text).curves
    return curve


def timed(size: int, us: float, wrong: int | None = 0) -> Point:
    return Point(size, us / 1e6, wrong, repetitions=20)


def expected(times: tuple[str, ...], wrong: int | None = 0) -> tuple[Point, ...]:
    return tuple(timed(size, float(us), wrong) for size, us in zip(SIZES, times, strict=True))


def shaped(factor: float, start: str, in_place_wrong: str = "0") -> list[str]:
    """Rows with the bus factor, type, redop and root of another collective."""
    form = "{0:12d}  {1:12d}     {2}".format
    return [
        form(size, size // 16, start)
        + cell(size, us, factor=factor)
        + cell(size, us, in_place_wrong, factor)
        for size, us in zip(SIZES, TIMES, strict=True)
    ]


WHOLE = Curve("all_reduce", 4, 2, expected(TIMES), expected(IN_PLACE), "x.log:11", ())
WHOLE = replace(
    WHOLE,
    gpus_per_node=2,
    device="NVIDIA H100",
    dtype="float",
    hosts=("node1", "node2"),
    log="x.log",
)


def same(text: str) -> None:
    """The damage in `text` is no damage: everything is read, and nothing is said to be skipped."""
    result = parse(text)
    assert result.skipped == ()
    assert [(c.collective, c.ranks, c.nodes, c.points, c.in_place) for c in result.curves] == [
        (WHOLE.collective, WHOLE.ranks, WHOLE.nodes, WHOLE.points, WHOLE.in_place)
    ]
