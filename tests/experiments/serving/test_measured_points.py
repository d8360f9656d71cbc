"""Points of a user, and their files."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from deployments import deploy
from experiments.serving.deployment import Deployment
from experiments.serving.measured_points import MeasuredPoint, factors, read_points
from experiments.serving.operating_point import TIMES, Factor, Load, point
from grouped_cases import each_case
from refusals import refusal
from topologies.catalogue import find
from topologies.errors import InputError

HEADER = "isl,osl,concurrency,ttft_ms,tpot_ms\n"
MACHINE = find("hgx_h200").build(8)


def corrections(deployment: Deployment, points: Sequence[MeasuredPoint]) -> tuple[Factor, Factor]:
    return factors(deployment, partial(point, deployment, MACHINE), points)


def test_points_are_read_by_the_names_of_columns(tmp_path: Path) -> None:
    path = tmp_path / "points.csv"
    path.write_text("tpot_ms,note,isl,osl,ttft_ms,concurrency\n20,a,1024,512,300,64\n")
    assert read_points(path) == [(Load(1024.0, 512.0, 64.0), (0.02, 0.3))]


@each_case(
    ("data", "message"),
    [
        (b"", "no column isl: expected a CSV of isl, osl, concurrency"),
        (HEADER.encode(), "has no point: expected a line with isl, osl"),
        (b"isl,osl\n1,2\n", "line 1: no column concurrency"),
        (HEADER.encode() + b"1024,1024,8,100\n", "line 2: expected five numbers"),
        (HEADER.encode() + b"1024,1024,8,fast,10\n", "line 2: expected five numbers"),
        (HEADER.encode() + b"1,2,1,1,1\n1024,0,8,100,10\n", "line 3: expected numbers above 0"),
        (HEADER.encode() + b"1024,1024,8,nan,10\n", "line 2: expected numbers above 0"),
        (HEADER.encode() + b"1024,1024,8,1e400,10\n", "line 2: expected numbers above 0"),
        (HEADER.encode() + b'1024,"1024,8,100,10\n', "expected a CSV"),
        (HEADER.encode() + b"1024,1,8,100,10\n", "line 2: expected an osl of 2 or more"),
        (b"\xff\xfe\x00", "points.csv"),
        (HEADER.encode() + b"1,2,1,1,1\n" * 2**18, "take at most 1000 points"),
        (HEADER.encode() + b"1,2,1,1,1\n" * 1001, "more than 1000 points"),
    ],
)
def test_files_without_points_are_refused(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "points.csv"
    path.write_bytes(data)
    assert message in refusal(read_points, path)


def test_points_move_predictions_the_more_the_more_there_are() -> None:
    """Twice as long as predicted: one point moves most of the way, ten nearly all of it."""
    deployment = deploy("tp=8")
    load = Load(1024.0, 1024.0, 16.0)
    predicted = point(deployment, MACHINE, load)
    tpot, ttft = predicted.tpot.expected, predicted.ttft.expected
    slow = load, (2 * tpot, 2 * ttft)
    one, ten = corrections(deployment, [slow]), corrections(deployment, [slow] * 10)
    for few, many in zip(one, ten, strict=True):
        assert 1.5 < few.expected < many.expected < 2
        assert 0.05 < (many.spread or 0) < (few.spread or 0) < 0.2
    same = corrections(deployment, [(load, (tpot, ttft))])
    assert [each.expected for each in same] == pytest.approx([1, 1])
    near = point(deployment, MACHINE, load, factors=ten)
    assert near.tpot.high / near.tpot.low < predicted.tpot.high / predicted.tpot.low


def test_points_that_differ_leave_more_unsure() -> None:
    deployment, load = deploy("tp=8"), Load(1024.0, 1024.0, 16.0)
    tpot, ttft = (getattr(point(deployment, MACHINE, load), name).expected for name in TIMES)
    alike = [(load, (tpot, ttft))] * 4
    scattered = [(load, (tpot * off, ttft * off)) for off in (0.5, 2, 0.5, 2)]
    known, unsure = (corrections(deployment, points)[0] for points in (alike, scattered))
    assert (known.spread or 0) < 0.2 < (unsure.spread or 0)


@each_case(
    ("load", "seconds", "message"),
    [
        (Load(1024.0, 1024.0, 8.0), 1e-300, r"measured point 1: its TPOT is .* times what simctl"),
        (Load(1024.0, 1024.0, 1e8), 1.0, r"measured point 1: 1e\+08 sequences at once, but"),
        (
            Load(1e8, 1024.0, 1.0),
            1.0,
            r"measured point 1: 100001024 tokens .*: llama3_70b has 131072",
        ),
    ],
)
def test_points_that_cannot_be_are_refused(load: Load, seconds: float, message: str) -> None:
    with pytest.raises(InputError, match=message):
        corrections(deploy("tp=8"), [(load, (seconds, seconds))])
