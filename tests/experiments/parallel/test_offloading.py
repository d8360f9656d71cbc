"""Activations in the memory of the host."""

import pytest

from experiments.parallel.offloading import host_bandwidth, offload_stages
from experiments.parallel.plan_step import memory_of, stages_of, work_of
from experiments.parallel.plan_text import parse_plan
from grouped_cases import each_case
from shipped_shapes import training
from simulator.parallel.group_times import GroupTimes
from simulator.parallel.step import write
from simulator.parallel.step_measures import measure
from topologies.catalogue import find
from topologies.errors import InputError
from topologies.shapes import ring

SMALL = "gpt3_1_7b:layers=6,hidden=512,heads=8,seq=256"


@each_case(
    ("machine", "bandwidth"),
    # Two GPUs of an HGX H100 share a PCIe switch; those of Grace have a link each.
    [("hgx_h100", 48e9 / 2), ("dgx_a100", 24e9 / 2), ("dgx1", 12e9 / 2), ("nvl72", 450e9)],
)
def test_the_link_to_the_host_is_that_of_the_machine(machine: str, bandwidth: float) -> None:
    assert host_bandwidth(find(machine).build(4)) == bandwidth


def test_a_machine_without_a_cpu_keeps_activations() -> None:
    with pytest.raises(InputError, match="ring has no link from a GPU to a CPU: take offload=0"):
        host_bandwidth(ring(4, bandwidth=1e9))


@each_case("layers", [0, 1, 2, 9])
def test_the_first_layers_of_a_stage_keep_nothing(layers: int) -> None:
    stages = stages_of(training(SMALL), parse_plan("pp=2"))
    moved = offload_stages(stages, layers, bandwidth=1e9)
    for before, after in zip(stages, moved, strict=True):
        kept = [block.kept == 0 for block in after if block.name == "layer"]
        assert kept == [number < layers for number in range(3)]
        assert len({id(block) for block in after}) <= len({id(block) for block in before}) + 1


def test_a_fast_link_hides_the_copies() -> None:
    (stage,) = stages_of(training(SMALL), parse_plan(""))
    (fast,), (slow,) = (offload_stages((stage,), 6, speed) for speed in (1e15, 1e3))
    before, *_, after = (sum(part.seconds for part in b.forward) for b in (stage[1], fast[1]))
    assert before == after
    # A copy hides behind the layer.
    assert sum(part.seconds for part in slow[1].forward) == stage[1].kept / 1e3


def test_offloading_takes_time_and_saves_memory() -> None:
    model, machine = training("llama3_8b"), find("hgx_h100").build(2)
    runs = []
    for text in ("dp=2,zero=3", "dp=2,zero=3,offload=30"):
        plan = parse_plan(text)
        work = work_of(model, plan, GroupTimes(machine, plan.degrees))
        runs.append((measure(write(work)).step, memory_of(model, plan, work).peak))
    (seconds, nbytes), (longer, less) = runs
    assert seconds < longer < 3 * seconds
    assert less < 0.7 * nbytes
