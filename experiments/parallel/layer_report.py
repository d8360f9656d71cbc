"""What a plan cuts inside layers, in a report: what its router does, and what is proven."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from experiments.models.model_shapes import Experts
from experiments.output import align
from experiments.parallel.expert_routing import Routing
from experiments.parallel.plan_text import Plan
from simulator.collectives import find
from simulator.collectives.collective import Algorithm
from simulator.parallel.layer_proofs import Counts, prove_attention, prove_experts, prove_sums
from simulator.parallel.step_work import Work
from simulator.schedules import semantics
from topologies.units import format_seconds

PROVEN = 16
"""Tokens of each rank in a proof of experts."""
LARGE = 64
"""Ranks of a group that are proven, at most."""
EXCHANGES = "dispatch", "combine"


def prove(plan: Plan, routing: Routing | None, experts: Experts | None) -> dict[str, str]:
    """What is proven on integers, by the kind of group. Raises WrongResult if it is wrong."""
    proven = {}
    if 1 < plan.tp <= LARGE:
        prove_sums(plan.tp, sequence=plan.sp)
        proven["tp"] = "the partial sums of all ranks add up"
    if 1 < plan.cp <= LARGE:
        prove_attention(plan.context, plan.cp)
        proven["cp"] = "every query meets every key that it may see once"
    if 1 < plan.ep <= LARGE and experts is not None:
        dropped = _prove_experts(plan, routing, experts.number, experts.top)
        rest = "; what is dropped counts as 0" if dropped else ""
        proven["ep"] = f"every token returns to its owner with the sum of its experts{rest}"
    return proven


def _prove_experts(plan: Plan, routing: Routing | None, experts: int, top: int) -> int:
    local = experts // plan.ep
    if routing is None:
        even = np.arange(plan.ep * PROVEN * top) % experts
        pairwise = find("pairwise")
        return prove_experts(pairwise, pairwise, even.reshape(plan.ep, PROVEN, top), local)
    few = replace(routing, router=replace(routing.router, tokens=PROVEN))
    slots = int(np.ceil(PROVEN * top / experts * plan.capacity))
    dispatch, combine = _algorithms(few)
    return prove_experts(dispatch, combine, _chosen(few.counts, top), local, slots)


def _algorithms(routing: Routing) -> tuple[Algorithm, Algorithm]:
    """A dispatch and a combine that carry a message for each pair of ranks. What goes on inside
    nodes is proven first, by its promise."""
    algorithms = routing.algorithms
    if not algorithms:
        return find("pairwise"), find("pairwise")
    if routing.forwards:
        forwarded = algorithms["dispatch"][0]
        semantics.check(forwarded.build(routing.ranks, 1.0), forwarded.collective)
        return find("pairwise"), find("pairwise")
    return algorithms["dispatch"][0], algorithms["combine"][0]


def _chosen(counts: Counts, top: int) -> Counts:
    """The experts of each token, shape (ranks, tokens, top), from how many tokens go to each
    expert. A token has no expert twice."""
    experts = np.arange(counts.shape[1])
    rows = [np.repeat(experts, row).reshape(top, -1).T for row in counts]
    return np.stack(rows).astype(np.int64)


def figures(routing: Routing | None, work: Work, exposed: float) -> dict[str, Any]:
    """What a router does, for JSON; empty without one: of a forward, how long a dispatch and a
    combine take, and their shares of what a mean device waits for all-to-alls of experts in a
    step, `exposed`."""
    if routing is None:
        return {}
    record: dict[str, Any] = {
        "busiest": routing.imbalance,
        "dropped": routing.dropped,
        "even": routing.even,
    }
    blocks = (block for stage in work.stages for block in stage)
    block = next((each for each in blocks if "ep" in {p.group for p in each.forward}), None)
    if block is None:
        return record
    passes = [
        [
            work.times.seconds("ep", part.collective, part.nbytes)
            for part in parts
            if part.group == "ep"
        ]
        for parts in (block.forward, block.again, block.backward)
    ]
    total = sum(map(sum, passes)) or 1.0
    # Gradients of what is dispatched, and of what returns, travel in this order too.
    for place, name in enumerate(EXCHANGES):
        record[f"{name}_s"] = passes[0][place]
        share = sum(times[place] for times in passes if times) / total
        record[f"exposed_{name}_s"] = share * exposed
    return record


def text(plan: Plan, router: Mapping[str, Any], proven: Mapping[str, str]) -> str:
    """The figures of a router and what is proven, as text; empty if there is nothing to say."""
    blocks = []
    if router:
        even = f"{plan.capacity:g} times the tokens of even routing"
        slots = even if plan.capacity else "all tokens"
        lines = [
            ["  busiest rank", f"{router['busiest']:.2f}", "times the tokens of a mean rank"],
            ["  dropped", f"{router['dropped']:.1%}", f"experts take {slots}"],
        ]
        for name in (name for name in EXCHANGES if f"{name}_s" in router):
            exposed = format_seconds(router[f"exposed_{name}_s"])
            about = f"of a layer and a micro-batch; exposed {exposed}"
            lines.append([f"  {name}", format_seconds(router[f"{name}_s"]), about])
        if router["even"] and plan.ep > 1:
            lines.append(["  all-to-alls", "even", router["even"]])
        blocks.append(f"tokens of experts ({plan.router}, seed {plan.seed})\n" + align(lines))
    if proven:
        lines = [[f"  {kind}", what] for kind, what in proven.items()]
        blocks.append("proven on integers\n" + align(lines))
    return "\n\n".join(blocks)
