"""What is proven of the layers that a plan cuts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from experiments.models.model_shapes import Experts
from experiments.parallel.expert_routing import Routing
from experiments.parallel.plan_text import Plan
from simulator.collectives import find
from simulator.parallel.layer_proofs import prove_attention, prove_experts, prove_sums
from simulator.schedules import semantics

PROVEN = 16
"""Tokens of each rank in a proof of experts."""
LARGE = 64
"""Ranks of a group that are proven, at most."""


def prove(plan: Plan, routing: Routing | None, experts: Experts | None) -> Mapping[str, str]:
    """What is proven on integers, by the kind of group. Raises WrongResult if it is wrong."""
    proven = {}
    if 1 < plan.tp <= LARGE:
        prove_sums(plan.tp, sequence=plan.sp)
        proven["tp"] = "the partial sums of all ranks add up"
    if 1 < plan.cp <= LARGE:
        prove_attention(plan.context, plan.cp)
        proven["cp"] = "every query meets every key that it may see once"
    if 1 < plan.ep <= LARGE and experts is not None:
        rest = "; what is dropped counts as 0" if _dropped(plan, routing, experts) else ""
        proven["ep"] = f"every token returns to its owner with the sum of its experts{rest}"
    return proven


def _dropped(plan: Plan, routing: Routing | None, experts: Experts) -> int:
    """Prove the exchanges of experts; returns how many copies of tokens are dropped."""
    local, top, slots = experts.number // plan.ep, experts.top, 0
    # These carry a message for each pair of ranks.
    dispatch = combine = find("pairwise")
    if routing is None:
        chosen = np.arange(plan.ep * PROVEN * top).reshape(plan.ep, PROVEN, top) % experts.number
        return prove_experts(dispatch, combine, chosen, local)
    few = replace(routing, router=replace(routing.router, tokens=PROVEN))
    if few.forwards and few.algorithms:
        # What goes on inside nodes is proven by its promise.
        forwarded = few.algorithms["dispatch"][0]
        semantics.check(forwarded.build(plan.ep, 1.0), forwarded.collective)
    elif few.algorithms:
        dispatch, combine = (few.algorithms[name][0] for name in ("dispatch", "combine"))
    # A token has no expert twice.
    numbers = np.arange(experts.number)
    chosen = np.array([np.repeat(numbers, row).reshape(top, -1).T for row in few.counts])
    slots = int(np.ceil(PROVEN * top / experts.number * plan.capacity))
    return prove_experts(dispatch, combine, chosen, local, slots)
