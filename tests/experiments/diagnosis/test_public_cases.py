"""Numbers of public threads: is each called normal or below expectation, as the thread found?

The cases were collected before anybody saw what simctl says of them. The file has the source of
each. Left out afterwards: three rows of one GPU with four NICs, two of machines with fewer NVLinks
than the catalogue has, and two whose thread does not agree whether the number is low.
"""

from __future__ import annotations

import csv
from dataclasses import replace
from functools import cache
from pathlib import Path

from experiments.diagnosis import Diagnosis, diagnose
from experiments.diagnosis.library_expectation import LibraryExpectation, measured_on
from experiments.measurements import Point
from experiments.measurements.collectives import bus_factor
from topologies.catalogue import find

CASES = Path(__file__).with_name("public_cases.csv")
MOST_RANKS = 256
"""Larger jobs take half a minute: one of 2,400 ranks is below expectation, too."""


@cache
def judged() -> tuple[tuple[dict[str, str], Diagnosis], ...]:
    """Each case with its diagnosis."""
    with CASES.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if int(row["ranks"]) <= MOST_RANKS]
    machines = {row["topology"]: find(row["topology"]) for row in rows}
    expectations = {text: LibraryExpectation(machine) for text, machine in machines.items()}
    return tuple((row, _diagnosis(row, expectations[row["topology"]])) for row in rows)


def _diagnosis(row: dict[str, str], expectation: LibraryExpectation) -> Diagnosis:
    ranks, size = int(row["ranks"]), int(row["size"])
    machine = find(row["topology"])
    curve = measured_on(machine, row["collective"], ranks)
    seconds = size * bus_factor(curve.collective, ranks) / (float(row["busbw_GBps"]) * 1e9)
    return diagnose(replace(curve, points=(Point(size, seconds),)), expectation)


def _right(cases: tuple[tuple[dict[str, str], Diagnosis], ...]) -> int:
    return sum(
        (diagnosis.below is not None) == (row["verdict"] == "below") for row, diagnosis in cases
    )


def test_no_normal_number_is_called_low() -> None:
    alarms = [row["name"] for row, diagnosis in judged() if diagnosis.below is not None]
    assert [row["name"] for row, _ in judged() if row["verdict"] == "normal"]
    assert not {row["name"] for row, _ in judged() if row["verdict"] == "normal"} & {*alarms}


def test_low_numbers_are_called_low() -> None:
    """25 of 30 is the least that we accept."""
    cases = judged()
    assert len(cases) >= 40
    assert _right(cases) >= len(cases) * 25 / 30
    explained = [case for case in cases if case[0]["cause"]]
    assert len(explained) >= 10
    assert _right(tuple(explained)) >= len(explained) - 2


def test_verdicts_name_what_is_expected() -> None:
    for row, diagnosis in judged():
        assert diagnosis.expected is not None, row["name"]
        said = diagnosis.below.text if diagnosis.below else diagnosis.facts[0]
        assert "should give" in said
