"""Proofs of the layers that a plan cuts."""

from __future__ import annotations

import pytest

from experiments.parallel.expert_routing import routing_of
from experiments.parallel.plan_proofs import prove
from experiments.parallel.plan_text import parse_plan
from tests.experiments.parallel.test_expert_routing import MACHINE, SMALL


@pytest.mark.parametrize("key", ["", ",router=zipf:0.7", ",router=zipf:0.7,capacity=1.5"])
def test_every_kind_of_exchange_is_proven(key: str) -> None:
    plan = parse_plan(f"tp=2,sp=yes,ep=4{key}", 16)
    router = routing_of(SMALL.shape, plan, SMALL.seq, MACHINE)
    proven = prove(plan, router, SMALL.shape.experts)
    assert ("dropped" in proven["ep"]) == ("capacity" in key)
    assert proven["tp"] == "the partial sums of all ranks add up"


def test_each_kind_of_group_has_a_proof() -> None:
    plan = parse_plan("ep=16,cp=2,tp=1,router=zipf:0.5,nodes=1,seed=2", 16)
    router = routing_of(SMALL.shape, plan, SMALL.seq, MACHINE)
    assert set(prove(plan, router, SMALL.shape.experts)) == {"cp", "ep"}
