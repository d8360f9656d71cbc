"""The graphs of iterations: as long as their parts together, but where stages wait."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from deployments import deploy
from experiments.serving.iterations import Forward, decode, prefill, round_seconds
from grouped_cases import each_case
from simulator.steps.kinds import ATTENTION, HEAD
from topologies.catalogue import find

MACHINE = find("hgx_h200").build(16)
BLOCK, HOST = 5e-6, 4e-4


def alone(forward: Forward, stages: int = 1) -> float:
    """Seconds of a pass by its parts."""
    return sum(forward.seconds) / forward.repeats + len(forward.kinds) * BLOCK + stages * HOST


@each_case(
    ("model", "cut", "about"),
    [
        ("llama3_70b", "tp=8", {}),
        ("llama3_70b", "tp=16", {"engine": "trtllm"}),
        ("llama3_70b", "tp=8,mtp=2", {}),
        ("llama3_8b", "", {"precision": "bf16"}),
        ("deepseek_v3", "tp=8,dp=4,ep=8", {"engine": "sglang"}),
        ("deepseek_v3", "tp=16,dp=16,ep=16", {"engine": "sglang"}),
        ("gpt_oss_120b", "tp=2,ep=2", {"precision": "fp4"}),
    ],
)
def test_a_graph_takes_as_long_as_its_parts(model: str, cut: str, about: dict[str, Any]) -> None:
    deployment = deploy(cut, model, **about)
    for forward in (
        decode(deployment, MACHINE, 48.0, 2048.0),
        prefill(deployment, MACHINE, 1024.0),
        prefill(deployment, MACHINE, 4096.0, 512.0),
    ):
        step = forward.step(BLOCK, HOST)
        assert round_seconds(step) == pytest.approx(alone(forward), rel=1e-9)
        seconds, graph = forward.seconds, step.graph
        calls, each = graph.call >= 0, graph.seconds * forward.repeats
        assert each[calls].sum() == pytest.approx(seconds.exchange)
        for kind, part in ((ATTENTION, seconds.context), (HEAD, seconds.head)):
            assert each[(graph.kind == kind) & ~calls].sum() == pytest.approx(part)


@each_case("pp", [2, 3, 5])
def test_stages_wait_for_the_longest(pp: int) -> None:
    """80 blocks: two and five stages share them evenly, but the last one has the head, too."""
    forward = decode(deploy(f"tp=2,pp={pp}"), MACHINE, 48.0, 2048.0)
    step = forward.step(BLOCK, HOST)
    graph = step.graph
    longest = max(graph.seconds[graph.stage == stage].sum() for stage in range(pp)) / 3 / pp
    least = alone(forward, pp)
    assert least <= round_seconds(step) <= 1.05 * pp * longest
    assert round_seconds(step) > least * (1.005 if pp == 3 else 1)
    assert np.unique(graph.stage[graph.seconds > 0]).tolist() == [*range(pp)]


def test_each_gpu_sends_tokens_to_experts_of_its_own() -> None:
    """Where fewer have experts of their own, groups gather all tokens."""
    sent, gathered = (
        {part.collective for parts in forward.parts.values() for part in parts}
        for forward in (
            decode(deploy(cut, "deepseek_v3"), MACHINE, 64.0, 1024.0)
            for cut in ("tp=8,dp=8,ep=8", "tp=8,dp=8,ep=4")
        )
    )
    assert sent == {"", "all_to_all", "all_gather", "reduce_scatter"}
    assert gathered == {"", "all_gather", "reduce_scatter"}


def test_engines_reduce_faster_than_nccl_across_nodes() -> None:
    inside, across = (
        decode(deploy(f"tp={tp}"), MACHINE, 8.0, 64.0).seconds.exchange for tp in (8, 16)
    )
    assert 2 * inside < across


def test_chunks_of_a_prompt_do_its_attention_together() -> None:
    """The chunks see all pairs that the whole prompt sees; more launches take longer."""
    deployment = deploy("tp=8")
    whole, chunks = (
        prefill(deployment, MACHINE, 8192.0, chunk).seconds.context for chunk in (0, 2048.0)
    )
    assert whole < chunks < 1.5 * whole
