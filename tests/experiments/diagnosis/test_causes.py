"""Faults of a machine, put in and found again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from experiments.diagnosis import Diagnosis, diagnose
from experiments.diagnosis.library_expectation import LibraryExpectation, measured_on
from experiments.measurements import Curve, Point
from grouped_cases import each_case
from topologies.catalogue import find

SIZES = np.array([2.0**power for power in range(28, 34)])


def judged(machine: str, faulty: str, factor: float = 1.0) -> tuple[Diagnosis, tuple[str, ...]]:
    """The diagnosis on a machine, and its causes, of what a faulty one gives."""
    sick, whole = LibraryExpectation(find(faulty)), LibraryExpectation(find(machine))
    curve = measured_on(find(faulty), "all_reduce", find(machine).whole().ranks)
    expected = sick(curve, SIZES)
    assert expected is not None
    seconds = (expected.seconds * factor).tolist()
    points = tuple(Point(int(size), time) for size, time in zip(SIZES, seconds, strict=True))
    diagnosis = diagnose(replace(curve, points=points), whole)
    return diagnosis, whole.causes(diagnosis)


@each_case(
    ("machine", "faulty", "words"),
    [
        ("hgx_h100:nodes=4", "hgx_h100:nodes=4,nics=4", "4 of 8 NICs of a node would give"),
        ("hgx_h100:nodes=2", "hgx_h100:nodes=2,nics=2", "2 of 8 NICs of a node would give"),
        ("dgx_a100:nodes=4", "dgx_a100:nodes=4,nics=2", "2 of 8 NICs of a node would give"),
        (
            "hgx_h200:nodes=2",
            "hgx_h200:nodes=2,nics=1,port=ethernet25",
            "TCP over one port would give 2.",
        ),
    ],
)
def test_a_fault_that_is_put_in_is_the_first_cause(machine: str, faulty: str, words: str) -> None:
    diagnosis, causes = judged(machine, faulty)
    assert diagnosis.verdict == "below expectation"
    assert causes[0].startswith(f"may be: {words}")
    assert len(causes) <= 3


def test_what_no_fault_explains_has_no_cause() -> None:
    _, causes = judged("hgx_h100:nodes=2", "hgx_h100:nodes=2", factor=2000.0)
    assert [line.partition(":")[0] for line in causes] == ["cannot tell the cause"]


def test_a_healthy_machine_has_no_cause() -> None:
    diagnosis, causes = judged("hgx_h100:nodes=2", "hgx_h100:nodes=2", factor=1.05)
    assert (diagnosis.verdict, causes) == ("healthy", ())


@pytest.mark.parametrize("factor", [3.0, 8.0, 30.0])
def test_causes_of_one_node_are_of_its_links(factor: float) -> None:
    diagnosis, causes = judged("hgx_h100", "hgx_h100", factor)
    assert diagnosis.verdict == "below expectation"
    assert not any("NICs" in line or "TCP" in line for line in causes)


def test_gpus_of_amd_have_links_of_their_own() -> None:
    diagnosis, causes = judged("mi300x", "mi300x", 2.1)
    assert diagnosis.verdict == "below expectation"
    assert causes[0].startswith("may be: a GPU with half of its links of kind xgmi would give")


def test_shapes_have_no_faults_to_simulate() -> None:
    machine = find("nodes:per_node=4")
    curve = Curve("all_reduce", 8, 2, (Point(2**30, 10.0),), ())
    expectation = LibraryExpectation(machine, "nccl")
    (line,) = expectation.causes(diagnose(curve, expectation))
    assert line.startswith("cannot tell the cause: simctl knows no fault")
