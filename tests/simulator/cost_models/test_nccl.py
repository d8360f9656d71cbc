"""NCCL's own model: times by hand, and laws."""

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from grouped_cases import each_case
from refusals import refusal
from simulator.cost_models.nccl import (
    ALGORITHMS,
    COLLECTIVES,
    CORRECTION,
    GENERATIONS,
    PROTOCOLS,
    NcclChannels,
    NcclJob,
    bandwidth,
    channels,
    choice,
    latency,
    seconds,
)

FIVE = channels("hopper", 100e9)
MICRO = 1e-6


def all_reduce(ranks: int, nodes: int, have: NcclChannels = FIVE) -> NcclJob:
    return NcclJob("all_reduce", ranks, nodes, have)


@st.composite
def jobs(draw: st.DrawFn, collectives: tuple[str, ...] = COLLECTIVES) -> NcclJob:
    inside, between = draw(st.floats(1e9, 1e11)), draw(st.floats(1e8, 1e11))
    have = NcclChannels(
        draw(st.sampled_from(GENERATIONS)),
        max(inside, between),
        between,
        draw(st.integers(1, 32)),
        draw(st.sampled_from(("nvlink", "pci"))),
        draw(st.sampled_from(("intel", "amd"))),
        draw(st.floats(0, 1e-5)),
        draw(st.booleans()),
    )
    nodes = draw(st.integers(1, 300))
    ranks = nodes * draw(st.integers(1 if nodes > 1 else 2, 8))
    return NcclJob(draw(st.sampled_from(collectives)), ranks, nodes, have)


def ways(job: NcclJob) -> list[tuple[str, str]]:
    names = ALGORITHMS if job.collective == "all_reduce" else ("ring",)
    return [(name, protocol) for name in names for protocol in PROTOCOLS]


@pytest.mark.parametrize(
    ("ranks", "ring", "tree"), [(16, 46.8, 30.4), (32, 92.4, 40.4), (64, 183.6, 50.4)]
)
def test_latencies_of_short_messages_on_nodes_of_four(ranks: int, ring: float, tree: float) -> None:
    job = all_reduce(ranks, ranks // 4)
    assert latency(job, "ring", "LL") == pytest.approx(ring * MICRO)
    assert latency(job, "tree", "LL") == pytest.approx(tree * MICRO)
    assert choice(job, 256)[1:] == ("tree", "LL")


def test_times_by_hand() -> None:
    ring = (8.4 + 24 * 3.4 + 6 * 14) * 1.4 * MICRO + 1e9 / (100e9 * 16 / 30)
    assert seconds(all_reduce(16, 4), "ring", "Simple", 1e9) == pytest.approx(ring)
    assert choice(all_reduce(16, 4), 1e9)[1:] == ("ring", "Simple")
    tree = 30.4 * MICRO + 2**20 / (20.4e9 * 0.5 * 0.5)
    assert seconds(all_reduce(16, 4), "tree", "LL", 2**20) == pytest.approx(tree)
    inside = all_reduce(8, 1, channels("ampere", 240e9))
    assert inside.channels.count == 12
    assert seconds(inside, "ring", "LL128", 1e6) == pytest.approx(
        40.6 * MICRO + 1e6 / (0.92 * 240e9 * 8 / 14)
    )
    capped = all_reduce(16, 4, channels("volta", 24e9))
    assert bandwidth(capped, "tree", "Simple") == pytest.approx(2 * 10e9 / 2)


def test_latencies_of_other_settings() -> None:
    amd = NcclChannels("ampere", 1e10, 1e10, 4, cpu="amd")
    assert latency(NcclJob("all_gather", 8, 2, amd), "ring", "Simple") == pytest.approx(
        (8.4 + 6 * 6 + 14) * MICRO
    )
    assert latency(all_reduce(4, 4), "ring", "LL") == pytest.approx((6.6 + 6 * 5) * MICRO)
    nic = NcclChannels("hopper", 1e10, 1e10, 4, nic=MICRO)
    assert latency(all_reduce(16, 4, nic), "tree", "Simple") == pytest.approx(
        (8.4 + 2 * (12 + 2 * 16)) * MICRO
    )
    assert latency(all_reduce(16, 4, nic), "tree", "LL") == pytest.approx(
        (6.8 + 2 * (1.8 + 2 * 6)) * MICRO
    )
    pci = NcclChannels("hopper", 1e10, 1e10, 4, inside="pci")
    assert latency(all_reduce(4, 1, pci), "ring", "Simple") == pytest.approx(
        (8.4 + 6 * 5.7) * MICRO
    )
    assert choice(all_reduce(4, 1, pci), 2**20).protocol != "LL128"


@each_case(
    ("have", "nodes", "how", "expected"),
    [
        (NcclChannels("ampere", 4e9, 2e9, 5), 1, "ring LL", 10e9 * 8 / 14),
        (NcclChannels("ampere", 40e9, 40e9, 5), 1, "ring LL", 87.7e9 * 8 / 14),
        (NcclChannels("ampere", 4e9, 2e9, 5), 1, "tree LL", 0.92 * 20e9 / 3.8 / 2),
        (NcclChannels("ampere", 4e9, 2e9, 5), 1, "tree LL128", 0.92 * 20e9 * 7 / 9 / 2),
        (NcclChannels("ampere", 4e9, 2e9, 5), 2, "tree LL128", 0.92 * 20e9 * 120 / 128 / 2),
        (NcclChannels("ampere", 4e9, 2e9, 5), 3, "tree LL128", 0.92 * 10e9 * 120 / 128 / 2),
        (NcclChannels("ampere", 4e9, 2e9, 5), 2, "ring Simple", 20e9 * 16 / 30),
        (NcclChannels("ampere", 4e9, 2e9, 5), 3, "ring Simple", 10e9 * 24 / 46),
        (NcclChannels("hopper", 60e9, 60e9, 5), 2, "ring LL", 39e9 * 16 / 30),
        (NcclChannels("hopper", 60e9, 60e9, 5, cpu="amd"), 2, "ring LL", 22.5e9 * 16 / 30),
        (NcclChannels("hopper", 60e9, 60e9, 5, cpu="amd"), 1, "ring LL", 141e9 * 8 / 14),
        (NcclChannels("hopper", 60e9, 60e9, 5), 4, "ring LL128", 5 * 36.7e9 * 32 / 62),
        (NcclChannels("hopper", 60e9, 60e9, 5), 4, "tree LL128", 5 * 29e9 / 2),
        (NcclChannels("blackwell", 90e9, 90e9, 5), 2, "tree Simple", 5 * 42.8e9 / 2),
    ],
)
def test_bandwidths_of_nodes_of_eight(
    have: NcclChannels, nodes: int, how: str, expected: float
) -> None:
    assert bandwidth(all_reduce(8 * nodes, nodes, have), *how.split()) == pytest.approx(expected)


@pytest.mark.parametrize(("alike", "expected"), [(True, 8.4 + 14), (False, 8.4 + 8 * 14)])
def test_a_broadcast_pays_for_one_step_if_channels_are_alike(alike: bool, expected: float) -> None:
    job = NcclJob("broadcast", 8, 2, NcclChannels("volta", 1e10, 1e10, 2, alike=alike))
    assert latency(job, "ring", "Simple") == pytest.approx(expected * MICRO)
    assert bandwidth(job, "ring", "Simple") == 2e10


def test_a_ring_of_older_gpus_pays_more_on_its_plateau() -> None:
    for generation, more in (("volta", 1.9), ("ampere", 1.4)):
        job = all_reduce(16, 4, NcclChannels(generation, 1e10, 1e10, 2))
        short, long = (
            seconds(job, "ring", "Simple", size) - size / (2e10 * 16 / 30) for size in (2047, 2048)
        )
        assert long / short == pytest.approx(more)


def test_trees_are_worst_between_64_kib_and_2_mib() -> None:
    assert all(len(row) == 23 for row in CORRECTION.values())
    for protocol, worst in (("LL", 0.4), ("LL128", 0.6), ("Simple", 0.5)):
        dip = [64 << k for k, share in enumerate(CORRECTION[protocol]) if share == worst]
        assert dip[0] >= 2**16
        assert dip[-1] <= 2**21
    job = all_reduce(16, 4)
    for size, share in ((63, 1.0), (64, 0.9), (2**29 - 1, 0.9), (2**29, 1.0)):
        spent = seconds(job, "tree", "Simple", size) - latency(job, "tree", "Simple")
        assert spent == pytest.approx(size / (0.92 * 100e9 / 2 * share))


@given(jobs(), st.floats(0, 1e12), st.floats(1, 1e3))
def test_a_ring_takes_longer_for_more(job: NcclJob, nbytes: float, more: float) -> None:
    for protocol in PROTOCOLS:
        assert seconds(job, "ring", protocol, nbytes * more) >= seconds(
            job, "ring", protocol, nbytes
        )


@given(jobs(), st.floats(1, 1e12))
def test_twice_the_bytes_take_longer(job: NcclJob, nbytes: float) -> None:
    for how in ways(job):
        assert seconds(job, *how, 2 * nbytes) > seconds(job, *how, nbytes)


@given(jobs(), st.integers(1, 300))
def test_more_nodes_have_higher_latency_and_no_more_bandwidth(job: NcclJob, more: int) -> None:
    assume(job.nodes >= 2)
    nodes = job.nodes + more
    larger = NcclJob(job.collective, job.ranks // job.nodes * nodes, nodes, job.channels)
    for how in ways(job):
        assert latency(larger, *how) >= latency(job, *how)
        assert bandwidth(larger, *how) <= bandwidth(job, *how) * (1 + 1e-12)


@given(jobs(), st.floats(0, 1e12))
def test_the_choice_is_the_fastest_that_is_enabled(job: NcclJob, nbytes: float) -> None:
    selection = choice(job, nbytes)
    enabled = [how for how in ways(job) if how[1] != "LL128" or job.channels.inside == "nvlink"]
    assert selection.seconds == min(seconds(job, *how, nbytes) for how in enabled)
    assert selection.seconds == seconds(job, selection.algorithm, selection.protocol, nbytes)
    assert choice(job, nbytes, ["ring"], ["LL"])[1:] == ("ring", "LL")


@given(jobs())
def test_nothing_takes_the_latency(job: NcclJob) -> None:
    for how in ways(job):
        assert seconds(job, *how, 0) == latency(job, *how) > 0


@given(st.sampled_from(GENERATIONS), st.floats(1e6, 1e13), st.floats(1, 10), st.floats(0, 1e10))
def test_faster_links_are_never_slower(
    generation: str, rate: float, more: float, nbytes: float
) -> None:
    slow, fast = (all_reduce(16, 4, channels(generation, rate * factor)) for factor in (1, more))
    assert slow.channels.count * slow.channels.node == pytest.approx(rate)
    for how in ways(slow):
        assert seconds(fast, *how, nbytes) <= seconds(slow, *how, nbytes) * (1 + 1e-9)


@each_case(
    ("wrong", "says"),
    [
        (lambda: channels("kepler", 1e9), "'kepler' is no generation: expected volta, ampere"),
        (
            lambda: channels("volta", 0.0),
            r"bandwidth inside nodes 0\.0: expected at least 1 byte/s",
        ),
        (lambda: channels("volta", float("nan")), "nan: expected"),
        (lambda: channels("volta", float("inf")), "inf: expected"),
        (lambda: NcclChannels("volta", 1e9, 1e9, 0), "0 channels: expected at least 1"),
        (lambda: NcclChannels("volta", 1e9, 1e9, 1, inside="usb"), "'usb' is no link"),
        (
            lambda: NcclChannels("volta", 1e9, 1e9, 1, cpu="z80"),
            "'z80' is no CPU: expected intel, amd",
        ),
        (lambda: NcclChannels("volta", 1e9, 1e9, 1, nic=-1.0), r"NIC latency -1\.0"),
        (
            lambda: NcclJob("all_to_all", 4, 1, FIVE),
            "'all_to_all' is no collective of NCCL's model",
        ),
        (lambda: all_reduce(1, 1), "1 ranks: expected at least 2"),
        (lambda: all_reduce(4, 0), "0 nodes: expected from 1 to the 4 ranks"),
        (lambda: all_reduce(4, 5), "5 nodes: expected from 1 to the 4 ranks"),
        (
            lambda: seconds(all_reduce(4, 1), "nvls", "LL", 1),
            "'nvls' is no algorithm: expected ring, tree",
        ),
        (
            lambda: seconds(all_reduce(4, 1), "ring", "eager", 1),
            "'eager' is no protocol: expected LL, LL128, Simple",
        ),
        (lambda: seconds(all_reduce(4, 1), "ring", "LL", -1), "-1 bytes: expected at least 0"),
        (lambda: seconds(all_reduce(4, 1), "ring", "LL", float("inf")), "inf bytes"),
        (
            lambda: seconds(NcclJob("broadcast", 4, 1, FIVE), "tree", "LL", 1),
            "'tree' is no algorithm: expected ring$",
        ),
        (
            lambda: choice(NcclJob("broadcast", 4, 1, FIVE), 1, ["tree"]),
            "nothing of tree, LL, LL128, Simple is enabled",
        ),
    ],
)
def test_mistakes_are_answered_in_one_line(wrong: object, says: str) -> None:
    assert callable(wrong)
    message = refusal(wrong)
    assert re.search(says, message)
