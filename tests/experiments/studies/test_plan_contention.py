"""Priced steps of random plans beside steps with all transfers."""

import csv
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from experiments.parallel.plan_text import parse_plan
from experiments.studies.__main__ import main
from experiments.studies.plan_contention import cause_of, draw, draw_hard
from simulator.engines import simulate
from simulator.schedules.schedule_builder import ScheduleBuilder
from topologies.catalogue import find
from topologies.errors import InputError
from topologies.shapes import star


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
