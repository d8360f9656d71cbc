"""Curves written as CSV and read again are the same curves."""

from dataclasses import astuple, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.measurements import Curve, Point, write_runs
from experiments.measurements.curve import KINDS
from experiments.measurements.formats.runs_csv.csv_reader import parse_csv

TIMES = st.floats(1e-9, 1e4)
WORDS = st.text("abcXYZ019 ,\"'_-.;é", max_size=12).map(str.strip)


def maybe(values: st.SearchStrategy[float]) -> st.SearchStrategy[float | None]:
    return st.none() | values


POINTS = st.builds(
    Point,
    st.integers(1, 2**50),
    TIMES,
    st.none() | st.integers(0, 2**40),
    maybe(st.floats(0, 10)),
    st.none() | st.integers(1, 10**6),
    maybe(TIMES),
    maybe(TIMES),
    maybe(TIMES),
)
SERIES = st.lists(POINTS, max_size=4, unique_by=lambda point: point.size).map(
    lambda points: tuple(sorted(points, key=lambda point: point.size))
)


@st.composite
def drawn_curves(draw: st.DrawFn) -> list[Curve]:
    collectives = [
        ("all_reduce", "ring"),
        ("all_gather", "ring_all_gather"),
        ("all_reduce", "trix6"),
        ("reduce", ""),
    ]
    curves = []
    for number in range(draw(st.integers(1, 4))):
        collective, algorithm = draw(st.sampled_from(collectives))
        per_node, nodes = draw(st.tuples(st.integers(1, 8), st.integers(1, 999)))
        points, in_place = draw(st.tuples(SERIES, SERIES).filter(any))
        protocol, library = draw(st.sampled_from(["", "LL128", "eager"])), draw(WORDS)
        curve = Curve(
            collective,
            per_node * nodes,
            nodes,
            points,
            in_place,
            f"{number}",
            (),
            algorithm,
            protocol,
            library,
            per_node,
        )
        backend, device, dtype, topology = draw(st.tuples(WORDS, WORDS, WORDS, WORDS))
        kind = draw(st.sampled_from(KINDS))
        curves.append(
            replace(
                curve, backend=backend, device=device, dtype=dtype, topology=topology, kind=kind
            )
        )
    return curves


def close(point: Point) -> object:
    """What a point equals that went to microseconds and back, which costs a last digit."""
    return tuple(
        value if value is None else pytest.approx(value, rel=1e-14) for value in astuple(point)
    )


@given(drawn_curves())
def test_what_is_written_is_read(curves: list[Curve]) -> None:
    measurements = parse_csv(write_runs(curves), Path("nowhere/run.csv"))
    assert measurements.skipped == ()
    assert [replace(curve, points=(), in_place=(), notes=()) for curve in measurements.curves] == [
        replace(curve, points=(), in_place=()) for curve in curves
    ]
    for read, wrote in zip(measurements.curves, curves, strict=True):
        assert list(map(astuple, read.points)) == list(map(close, wrote.points))
        assert list(map(astuple, read.in_place)) == list(map(close, wrote.in_place))


def test_a_point_is_a_row() -> None:
    curve = Curve(
        "reduce",
        None,
        None,
        (Point(8, 2e-6, 0, 0.5, 3),),
        (Point(8, 1e-6),),
        "log",
        library="NCCL 2.29.2",
    )
    assert write_runs([curve]).splitlines() == [
        "collective,algorithm,protocol,ranks,nodes,size_bytes,in_place,"
        "time_us,min_us,p90_us,mean_us,cv,repetitions,"
        "wrong,backend,device,dtype,library,topology,source,kind",
        "reduce,,,,,8,0,2.0,,,,0.5,3,0,,,,NCCL 2.29.2,,log,collective",
        "reduce,,,,,8,1,1.0,,,,,,,,,,NCCL 2.29.2,,log,collective",
    ]
