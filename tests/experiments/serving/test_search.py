"""Ways to serve under limits."""

import pytest

from deployments import deploy
from experiments.serving.deployment import Deployment
from experiments.serving.operating_point import Load
from experiments.serving.search import Limits, Served, cuts, search
from simulator.uncertainty.interval import LEVEL
from topologies.catalogue import find
from topologies.errors import InputError

FREE = Limits(float("inf"), float("inf"))
LOAD = Load(1024.0, 1024.0, 1.0)
MACHINE = find("hgx_h200")


def found(deployment: Deployment, limits: Limits = FREE) -> list[Served]:
    return list(search(deployment, MACHINE.build, 8, LOAD, limits, LEVEL))


def test_cuts_share_gpus_evenly() -> None:
    assert [str(cut) for cut in cuts(deploy(""), 8)] == ["", "tp=2", "tp=4", "tp=8"]
    assert "tp=8,dp=8,ep=8" in map(str, cuts(deploy("", "deepseek_v3"), 8))


def test_the_best_comes_first_and_is_within_the_limits() -> None:
    limits = Limits(1.0, 0.02)
    ways = found(deploy(""), limits)
    rates = [way.tokens for way in ways]
    assert rates == sorted(rates, reverse=True)
    assert all(limits.met_by(way.point) and way.instances * way.gpus == 8 for way in ways)


def test_tighter_limits_never_give_more() -> None:
    deployment = deploy("", "gpt_oss_120b", precision="fp4")
    rates = [found(deployment, Limits(1.0, tpot))[0].tokens for tpot in (0.01, 0.02, 0.04, 1.0)]
    assert rates == sorted(rates)


def test_limits_that_nothing_meets_name_the_least() -> None:
    with pytest.raises(InputError, match=r"with one sequence tp=8 has a TTFT of .* and a TPOT of"):
        found(deploy(""), Limits(1e-6, 1e-6))


def test_models_that_fit_nowhere_are_refused() -> None:
    with pytest.raises(InputError, match=r"no way to serve deepseek_v3 on 8 GPUs: .* GB more"):
        found(deploy("", "deepseek_v3", precision="bf16"))
