"""The graphs of iterations: as long as their parts together, but where stages wait."""

from typing import Any

import numpy as np
import pytest

from deployments import deploy
from experiments.models.accelerators import accelerator
from experiments.serving.iterations import Forward, decode, prefill
from grouped_cases import each_case
from simulator.steps.kinds import ATTENTION, HEAD
from topologies.catalogue import find

MACHINE = find("hgx_h200").build(16)
BLOCK, HOST = 5e-6, 4e-4


def alone(forward: Forward, stages: int = 1) -> float:
    """Seconds of a pass by its parts."""
    return (
        sum(forward.seconds) / forward.chunks * forward.prompts
        + len(forward.kinds) * BLOCK
        + stages * HOST
    )


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
        prefill(deployment, MACHINE, 4096.0, chunk=512.0),
        prefill(deployment, MACHINE, 64.0, prompts=8.5),
    ):
        step = forward.step(BLOCK, HOST)
        assert forward.round_seconds(step) == pytest.approx(alone(forward), rel=1e-9)
        seconds, graph = forward.seconds, step.graph
        calls, each = graph.call >= 0, graph.seconds * forward.chunks / forward.prompts
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
    assert least <= forward.round_seconds(step) <= 1.05 * pp * longest
    assert forward.round_seconds(step) > least * (1.005 if pp == 3 else 1)
    assert np.unique(graph.stage[graph.seconds > 0]).tolist() == [*range(pp)]


@each_case("sequences", [1.0, 2.0, 3.0])
def test_few_sequences_wait_for_no_stage(sequences: float) -> None:
    """There are as many parts as sequences, so one passes all stages alone."""
    forward = decode(deploy("tp=1,pp=8", "llama3_8b"), MACHINE, sequences, 2048.0)
    assert forward.parts_of_round == sequences
    passes = forward.round_seconds(forward.step(BLOCK, HOST))
    assert passes == pytest.approx(alone(forward, 8), rel=1e-6)


def test_short_prompts_pass_together() -> None:
    deployment = deploy("tp=8")
    one, many = (
        sum(prefill(deployment, MACHINE, 64.0, prompts=prompts).seconds) for prompts in (1, 16)
    )
    assert many < one / 4


@each_case(
    ("device", "cut", "model", "about"),
    [
        ("l40s", "tp=8", "llama3_70b", {"engine": "trtllm"}),
        ("l40s", "", "llama3_8b", {"engine": "trtllm"}),
        ("b200", "", "gpt_oss_20b", {"precision": "bf16"}),
        ("h100", "tp=8", "deepseek_v3", {"engine": "trtllm"}),
    ],
)
def test_no_cache_is_read_faster_than_memory(
    device: str, cut: str, model: str, about: dict[str, Any]
) -> None:
    deployment = deploy(cut, model, device=device, **about)
    for sequences, tokens in ((256.0, 512.0), (1.0, 100_000.0), (64.0, 8192.0)):
        least = sequences * deployment.kv_bytes(tokens) / accelerator(device).bandwidth
        context = decode(deployment, MACHINE, sequences, tokens).seconds.context
        assert context >= 0.999 * least


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
        prefill(deployment, MACHINE, 8192.0, chunk=chunk).seconds.context for chunk in (0, 2048.0)
    )
    assert whole < chunks < 1.5 * whole
