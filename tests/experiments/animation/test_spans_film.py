"""Films of any strategy and of plans, also under conditions."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ddp_steps import MODEL, star
from experiments.animation.spans_film import WAITS, spans_film
from experiments.pictures.timelines.step_spans import strategy_spans
from grouped_cases import each_case
from simulator.training.local_sgd import LocalSGD
from simulator.training.plan import Setting
from simulator.training.plan_simulation import train

Simctl = Callable[..., "subprocess.CompletedProcess[str]"]
PLAN = "--model", "gpt3_1_7b:layers=4", "--topology", "hgx_h100", "--plan"


@pytest.mark.parametrize(
    "options",
    [
        ("--model", "resnet50", "--strategy", "local_sgd:every=2", "--p", "2", "--steps", "2"),
        ("--model", "resnet50", "--strategy", "asgd", "--p", "2", "--steps", "2"),
        ("--model", "resnet50", "--p", "2", "--straggler", "1:2"),
        (*PLAN, "dp=2,tp=2,pp=2,batch=8", "--straggler", "3:2", "--slow-link", "1:0.5"),
        (*PLAN, "dp=8,zero=3", "--steps", "2", "--fail", "rank=1,step=1,restart=5ms"),
    ],
)
def test_strategies_and_plans_are_films(
    simctl: Simctl, tmp_path: Path, options: tuple[str, ...]
) -> None:
    done = simctl("animate", *options, "--out", tmp_path / "film.html")
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "film.html").read_text()
    assert "Keys: space plays" in page
    assert ("rank 3" in page) == ("3:2" in options)


def test_items_are_steps_that_wait_when_a_task_ends() -> None:
    plan = LocalSGD(every=2).plan(MODEL, Setting(star(2), 2, steps=2))
    film = spans_film(strategy_spans(plan, train(plan)))
    assert film.acts[0].end == train(plan).makespan
    assert WAITS in film.legend
    assert "numbered cells are steps" in film.note


@each_case(
    ("options", "message"),
    [
        ((*PLAN, "auto"), "--plan auto: an animation shows one plan alone"),
        ((*PLAN, "dp=8", "--strategy", "ddp"), "--plan dp=8: an animation shows one plan alone"),
        (("--model", "resnet50", "--p", "64"), "2 to 32"),
        ((*PLAN[:2], "--plan", "pp=64,batch=64", "--p", "64"), "64 stages do not divide"),
        (
            ("--model", "llama3_8b", *("--plan", "pp=8,batch=128", "--p", "8")),
            " tasks: an animation shows 32 and 8000 at most",
        ),
        (("--pipeline", "1f1b", "--plan", "dp=8"), "--plan dp=8 does not go with --pipeline"),
    ],
)
def test_what_no_film_shows_is_refused(
    simctl: Simctl, tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    done = simctl("animate", *options, "--out", tmp_path / "film.html")
    assert done.returncode == 2
    assert message in done.stderr
