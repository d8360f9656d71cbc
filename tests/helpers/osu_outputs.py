"""Output of OSU micro-benchmarks as text, and what is read of it."""

from experiments.measurements import Curve, Measurements, Point
from experiments.measurements.formats.osu_reader import parse_osu

SIZES = (4, 1024, 1048576)
AVERAGE = ("1.73", "12.05", "980.11")
SLOWEST = ("2.10", "14.92", "1002.40")
FULL = (
    "\n# OSU MPI Allreduce Latency Test v5.6.3\n"
    "# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations\n"
    "4                       1.73              1.20              2.10        1000\n"
    "1024                   12.05             11.20             14.92        1000\n"
    "1048576               980.11            970.02           1002.40         100\n"
)
PLAIN = (
    "\n# OSU MPI Allreduce Latency Test v7.4\n"
    "# Datatype: MPI_FLOAT.\n"
    "# Size       Avg Latency(us)\n"
    "4                       1.73\n"
    "1024                   12.05\n"
    "1048576               980.11\n"
)
LATENCY = (
    "# OSU MPI-CUDA Latency Test v5.7\n"
    "# Send Buffer on DEVICE (D) and Receive Buffer on HOST (H)\n"
    "# Size          Latency (us)\n"
    "0                       0.95\n"
    "1                      21.07\n"
    "4194304               183.66\n"
)
RATES = (
    "# OSU MPI Multiple Bandwidth / Message Rate Test v7.5.2\n"
    "# [ pairs: 4 ] [ window size: 64 ]\n"
    "# Datatype: MPI_CHAR.\n"
    "# Size                  MB/s        Messages/s\n"
    "1                       8.00        8000000.00\n"
    "1048576             20000.00          19073.49\n"
)


def parse(text: str) -> Measurements:
    return parse_osu(text, "x.out")


def only(text: str) -> Curve:
    (curve,) = parse(text).curves
    return curve


def seconds(
    times: tuple[str, ...], repetitions: tuple[int | None, ...] = (None, None, None)
) -> tuple[Point, ...]:
    each = zip(SIZES, times, repetitions, strict=True)
    return tuple(Point(size, float(us) / 1e6, repetitions=count) for size, us, count in each)


AVERAGES = seconds(AVERAGE)
WHOLE = seconds(SLOWEST, (1000, 1000, 100))


def renamed(text: str, name: str) -> str:
    return text.replace("Allreduce Latency", name)
