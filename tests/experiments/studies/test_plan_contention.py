"""Priced steps of random plans beside steps with all transfers."""

import csv
from functools import partial
from pathlib import Path

import pytest

from experiments.studies.__main__ import main
from experiments.studies.plan_contention import cause_of, shares, step_of
from simulator.engines import simulate
from simulator.schedules.schedule_builder import ScheduleBuilder
from topologies.shapes import star

MODEL = "gpt3_1_7b:layers=2,hidden=512,heads=8,seq=512,vocab=1000"
step = partial(step_of, MODEL, sharing="fair")


def test_every_second_plan_has_experts(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "plans.csv"
    main(["plan-contention", "4", str(file)])
    printed = capsys.readouterr().out
    assert "0 not written" in printed
    with file.open() as rows:
        read = list(csv.DictReader(rows))
    assert [row["kind"] for row in read] == ["dense", "experts"] * 2
    for row in read:
        error = float(row["priced_fair"]) / float(row["written_fair"]) - 1
        assert float(row["fair"]) == pytest.approx(error, abs=1e-12)
        assert row["plan"] in printed
        if row["shares"] == "False":
            assert abs(error) < 1e-9


def test_the_groups_of_one_stream_share_nothing() -> None:
    assert not shares(step("nodes:per_node=4", "tp=4,dp=2,zero=0"))


def test_devices_of_a_pipeline_share_the_network_interface_of_their_node() -> None:
    """Each rank of data parallel is on another node, where the other rank is its next stage."""
    assert shares(step("nodes:per_node=2", "dp=4,pp=2,zero=3,overlap=yes,order=pp-dp-tp-cp"))


@pytest.mark.parametrize(
    ("fair", "small", "expected"),
    [(0.01, 1.0, "large"), (0.01, 99.0, "order"), (0.03, 1.0, "rates")],
)
def test_a_small_message_waits_behind_a_large_one(fair: float, small: float, expected: str) -> None:
    """Rank 2 sends while the switch forwards the message of rank 0 to rank 1."""
    builder = ScheduleBuilder(3, 1.0)
    builder.signal(0, 1, nbytes=100.0)
    builder.signal(2, 1, nbytes=small)
    timeline = simulate(builder.build(), star(3, bandwidth=1.0))
    assert cause_of(fair, -0.2, timeline) == expected
    assert not cause_of(fair, 0.05, timeline)
