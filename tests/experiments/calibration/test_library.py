"""Libraries, measured machines, and a library on measured links."""

from dataclasses import replace

import pytest

from experiments.calibration.libraries import MPI, NCCL
from experiments.calibration.library import linked, port
from experiments.calibration.measured_machines import check, gpu, may_multicast, multicasts
from experiments.measurements import Curve
from experiments.measurements import Point as Measured
from grouped_cases import each_case
from topologies.catalogue import find
from topologies.errors import InputError

CHAINS = {"chain_broadcast": "chains_broadcast", "chain_reduce": "chains_reduce"}


def test_the_ring_of_nccl_takes_all_nics_of_a_machine() -> None:
    library = NCCL.on(find("mn5_acc:nodes=2"))
    assert library.algorithms("all_reduce", "ring") == ("rings",)
    assert library.algorithms("all_reduce") == ("rings", "double_tree")
    assert library.algorithms("all_gather", "ring_all_gather") == ("rings_all_gather",)
    assert library.algorithms("reduce_scatter") == ("rings_reduce_scatter",)
    assert library.algorithms("broadcast") == ("chains_broadcast",)
    assert library.algorithms("reduce", "chain_reduce") == ("chains_reduce",)
    assert library.algorithms("all_reduce", "tree") == NCCL.algorithms("all_reduce", "tree")


@pytest.mark.parametrize("machine", ["nodes:per_node=4", "star", None])
def test_a_node_with_a_port_has_one_ring(machine: str | None) -> None:
    assert NCCL.on(find(machine) if machine else None) == NCCL


@pytest.mark.parametrize("one", CHAINS)
def test_chains_over_all_nics_cost_what_a_chain_does(one: str) -> None:
    several = CHAINS[one]
    assert NCCL.pieces[several] == NCCL.pieces[one]
    for prior in NCCL.protocols:
        assert prior.factors.get(several) == prior.factors.get(one)


def test_the_ring_of_mpi_takes_one_nic() -> None:
    assert MPI.on(find("mn5_acc:nodes=2")).algorithms("all_reduce", "ring") == ("ring",)


BANDWIDTH = 10e9


def pairs(
    ranks: int | None, nodes: int | None, gigabytes: float, collective: str = "send_recv"
) -> Curve:
    """Point-to-point runs at so many GB/s a pair, but for a short message."""
    points = tuple(Measured(size, 1e-6 + size / gigabytes / 1e9) for size in (8, 1 << 30))
    return Curve(collective, ranks, nodes, points, (), "made up", pairs=True)


def test_a_port_carries_what_all_pairs_move_at_once() -> None:
    one_pair, four_pairs = pairs(2, 2, 9.0), pairs(8, 2, 5.0)
    assert port([one_pair]) == pytest.approx(9e9, rel=1e-3)
    assert port([one_pair, four_pairs]) == pytest.approx(20e9, rel=1e-3)


@pytest.mark.parametrize(("ranks", "leaving"), [(2, 1), (6, 2), (8, 2)])
def test_of_pairs_that_ping_pong_every_other_one_leaves_a_node(ranks: int, leaving: int) -> None:
    latencies = replace(pairs(ranks, 2, 5.0), kind="multi-pair latency")
    assert port([latencies]) == pytest.approx(leaving * 5e9, rel=1e-3)


def test_of_a_ring_of_sends_one_leaves_a_node() -> None:
    assert port([replace(pairs(16, 2, 13.6), pairs=False)]) == pytest.approx(13.6e9, rel=1e-3)


def test_wrong_results_say_nothing_of_a_port() -> None:
    with pytest.raises(InputError):
        port([replace(pairs(2, 2, 9.0), points=(Measured(1 << 30, 0.1, wrong=3),))])


@pytest.mark.parametrize(
    "curve", [pairs(2, 1, 9.0), pairs(8, 4, 9.0), pairs(2, 2, 9.0, "all_reduce")]
)
def test_what_is_not_between_two_nodes_says_nothing_of_a_port(curve: Curve) -> None:
    with pytest.raises(
        InputError,
        match=r"^no point-to-point run between two nodes: --links takes those of osu_mbw_mr",
    ):
        port([curve])


def test_protocols_have_what_their_flags_leave_of_a_link() -> None:
    rates = {
        protocol.name: 1 / protocol.slowness["network"]
        for protocol in linked(NCCL, BANDWIDTH).protocols
    }
    assert rates == pytest.approx({"short": 0.15e9, "LL": 1.25e9, "LL128": 9.2e9, "Simple": 10e9})
    assert 1 / linked(NCCL, 1e12).protocols[1].slowness["network"] == pytest.approx(50e9)
    last, before = linked(MPI, 1e12).protocols[-1], MPI.protocols[-1]
    assert 1 / last.slowness["network"] == pytest.approx(1e12)
    assert last.slowness["node"] == before.slowness["node"]


def curve(device: str) -> Curve:
    return Curve("all_reduce", 8, 1, (), (), f"{device.replace(' ', '_')}.log", device=device)


@each_case(
    ("device", "model"),
    [
        ("NVIDIA A10G", "A10G"),
        ("NVIDIA A100-SXM4-40GB", "A100"),
        ("Tesla V100S-PCIE-32GB", "V100S"),
        ("NVIDIA RTX A6000", "A6000"),
        ("NVIDIA GeForce RTX 4090", "4090"),
        ("NVIDIA GeForce RTX 2080 Ti", "2080 Ti"),
        ("AMD gfx942", "gfx942"),
        ("NVIDIA GH200 480GB", "GH200"),
        ("", ""),
    ],
)
def test_a_device_says_its_model(device: str, model: str) -> None:
    assert gpu(curve(device)) == model


def test_runs_on_gpus_of_two_models_are_no_one_machine() -> None:
    with pytest.raises(InputError, match="runs of 2 machines"):
        check([curve("NVIDIA A10G"), curve("NVIDIA H100 80GB HBM3")])
    check([curve("NVIDIA A10G"), curve("NVIDIA A10G")])


@each_case(
    ("device", "ranks", "nodes", "library", "may", "does"),
    [
        ("NVIDIA H100 80GB HBM3", 8, 1, "", True, True),
        ("NVIDIA H200", 8, 1, "NCCL 2.21.5+cuda12.4", True, True),
        ("NVIDIA B200", 6, 1, "NCCL 2.27", True, True),
        ("NVIDIA H100 80GB HBM3 NVLink4/NVSwitch", 4, 1, "", True, True),
        ("NVIDIA GH200 120GB NVLink4", 4, 1, "", True, False),
        ("NVIDIA H100 PCIe", 8, 1, "", True, False),
        ("NVIDIA H100 NVL", 8, 1, "", True, False),
        ("", 8, 1, "", True, False),
        ("NVIDIA A100-SXM4-80GB NVSwitch", 8, 1, "", False, False),
        ("NVIDIA H100 80GB HBM3 NVSwitch", 2, 1, "", False, False),
        ("NVIDIA H100 80GB HBM3 NVSwitch", 8, 2, "", False, False),
        ("NVIDIA H100 80GB HBM3 NVSwitch", 8, 1, "NCCL 2.16.2", False, False),
    ],
)
def test_where_nccl_may_reduce_in_switches(
    device: str, ranks: int, nodes: int, library: str, may: bool, does: bool
) -> None:
    """GPUs from Hopper on, three or more on one node, NCCL from 2.17 on; and NVSwitches."""
    measured = Curve("all_reduce", ranks, nodes, (), (), "x.log", device=device, library=library)
    assert (may_multicast(measured), multicasts(measured)) == (may, does)
