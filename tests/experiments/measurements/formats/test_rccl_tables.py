"""Tables of rccl-tests, with every column that its options add."""

import json
from itertools import product

from experiments.measurements.formats.json_reader import parse_json
from experiments.measurements.formats.log_reader import parse_log
from grouped_cases import each_case

SIZES = tuple(2**k for k in range(10, 24))
STAMP = "2026-01-02 03:04:05"
PLACES = [(True, True), (True, False), (False, True)]
Layout = tuple[tuple[bool, bool], bool, bool, bool, bool]
LAYOUTS: list[Layout] = [
    *product(PLACES, [False, True], [False, True], [False, True], [False, True])
]


def time_us(size: int) -> float:
    return 20 + size / 1e4


def table(
    places: tuple[bool, bool] = (True, True),
    events: bool = False,
    choices: bool = False,
    stamps: bool = False,
    checked: bool = True,
    *,
    cpu: bool = False,
    kind: str = "float",
    redop: str = "sum",
) -> str:
    """What rccl-tests 2.17 prints for two ranks: places, the events of HIP, the library's choices
    and time stamps."""
    time = ["cputime" if cpu else "time", *(["hipevt"] if events else [])]
    names = [*time, "algbw", "busbw", "#wrong"] * sum(places)
    widths = [7] * len(time) + [6, 6, 6]
    cells = "".join(
        f"  {name:>{width}}" for name, width in zip(names, widths * sum(places), strict=True)
    )
    tail = f" {'algo      proto      nchannels' if choices else '':>{28 if choices else 0}}"
    tail += f" {'timestamp' if stamps else '':>{19 if stamps else 0}}"
    words = " ".join(("out-of-place" if places[0] else "", "in-place" if places[1] else ""))
    return "\n".join(
        [
            "# rccl-tests version 2.17.6-develop:abc rccl-headers=22707 rccl-library=22707",
            "# Collective test starting: all_reduce_perf",
            "# nThread 1 nGpus 2 minBytes 1024 maxBytes 8388608 step: 2(factor) warmup iters: 5 "
            "iters: 20 agg iters: 1 validation: 1 graph: 0 unalign: 0",
            "# Using devices",
            *(
                f"#  Rank {k:2d} Group  0 Pid     77 on  n1 device {k:2d} [05] MI300X"
                for k in (0, 1)
            ),
            "#",
            f"#{'':52}{words}",
            f"# {'size':>10}  {'count':>12}  {'type':>8}   redop    root{cells}{tail}",
            f"# {'(B)':>10}  {'(elements)':>12}",
            *(_row(size, places, events, choices, stamps, checked, kind, redop) for size in SIZES),
            "# Out of bounds values : 0 OK",
            "# Avg bus bandwidth    : 12.5",
            "# GPU memory usage     : InitNCCL 1.00 GB | Total  1.00 GB",
            "# Collective test concluded: all_reduce_perf",
            "",
        ]
    )


def _row(
    size: int,
    places: tuple[bool, bool],
    events: bool,
    choices: bool,
    stamps: bool,
    checked: bool,
    kind: str,
    redop: str,
) -> str:
    us, rate = time_us(size), size / time_us(size) / 1e3
    event = f"  {'N/A' if size == SIZES[2] else f'{us - 1:.2f}':>7}" if events else ""
    cell = f"  {us:7.2f}{event}  {rate:6.2f}  {rate:6.2f}  {'     0' if checked else '  N/A'}"
    # rccl-tests prints the stamp with the time in place alone, and before the choices
    stamp = f"{STAMP:>21}" if stamps and places[1] else ""
    choice = f"{'Ring':>8}  {'Simple':>8}  {56:10d}" if choices else ""
    width = {"int8": 1, "fp8_e4m3": 1, "fp8_e5m2": 1, "half": 2, "bfloat16": 2, "float": 4}
    start = f"{size:12d}  {size // width.get(kind, 8):12d}  {kind:>8}  {redop:>6}  {-1:6d}"
    return f"{start}{cell * sum(places)}{stamp}{choice}"


@each_case("layout", LAYOUTS)
@each_case(("cpu", "redop"), [(False, "sum"), (True, "none")])
def test_every_layout_of_rccl_tests_is_read(layout: Layout, cpu: bool, redop: str) -> None:
    places, *_, checked = layout
    (curve,) = parse_log(table(*layout, cpu=cpu, redop=redop), "x.log").curves
    assert (curve.collective, curve.ranks, curve.nodes) == ("all_reduce", 2, 1)
    assert curve.library == "RCCL"
    for measured, points in zip(places, (curve.points, curve.in_place), strict=True):
        assert [point.size for point in points] == [*SIZES] * measured
        assert [round(point.time_s * 1e6, 2) for point in points] == [
            round(time_us(size), 2) for size in SIZES
        ] * measured
        assert {point.wrong for point in points} <= {0 if checked else None}
    assert [note for note in curve.notes if "cputime" in note] == list(curve.notes)
    assert bool(curve.notes) is cpu


@each_case("kind", ["int8", "uint64", "half", "bfloat16", "fp8_e4m3", "fp8_e5m2", "double"])
def test_every_type_of_rccl_tests_is_read(kind: str) -> None:
    (curve,) = parse_log(table(kind=kind), "x.log").curves
    assert (curve.dtype, len(curve.points)) == (kind, len(SIZES))


def test_the_json_of_rccl_tests_names_rccl() -> None:
    cell = {"time": 20.0, "hip_event_time": 19.0, "alg_bw": 0.0512, "bus_bw": 0.0512, "nwrong": 0.0}
    row = {"size": 1024, "count": 256, "type": "float", "redop": "sum", "root": "    -1"}
    content = {
        "version": 1,
        "rccl_version": 22707,
        "config": {},
        "results": [{**row, "out_of_place": None, "in_place": cell}],
    }
    (curve,) = parse_json(json.dumps(content), "x.json").curves
    assert (curve.library, len(curve.in_place)) == ("RCCL 2.27.7", 1)
