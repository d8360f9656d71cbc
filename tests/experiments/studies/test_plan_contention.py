"""Priced steps of random plans beside steps with all transfers."""

import csv
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

import pytest

from experiments.parallel.plan_text import parse_plan
from experiments.studies.__main__ import main
from experiments.studies.plan_contention import cause_of, draw, draw_hard, shares, step_of
from simulator.engines import simulate
from simulator.schedules.schedule_builder import ScheduleBuilder
from topologies.catalogue import find
from topologies.errors import InputError
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


@pytest.mark.parametrize("drawn", [draw, draw_hard])
@pytest.mark.parametrize("kind", ["dense", "experts"])
def test_a_drawn_plan_has_8_to_16_gpus(
    drawn: Callable[[Random, str], tuple[str, str, str, str]], kind: str
) -> None:
    for seed in range(50):
        _, _, topology, text = drawn(Random(seed), kind)
        try:
            ranks = parse_plan(text).degrees.ranks
        except InputError:
            continue
        assert ranks in (8, 12, 16)
        assert find(topology).build(ranks).ranks == ranks


def test_usual_plans_share_network_interfaces_and_keep_tensor_parallelism_inside_a_node() -> None:
    for seed in range(50):
        _, _, topology, text = draw(Random(seed), "dense")
        words = dict(word.split("=") for word in text.split(","))
        options = dict(word.split("=") for word in topology.partition(":")[2].split(","))
        gpus = 4 if topology.startswith(("leonardo", "mn5_acc", "alps")) else 8
        assert int(words["tp"]) <= gpus
        assert 2 * int(options["nics"]) <= gpus
        assert "order" not in words


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
