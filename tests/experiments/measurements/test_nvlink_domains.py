"""Hosts that are trays of one NVLink domain are one node, wherever a log is read."""

from pathlib import Path

import pytest

from experiments.measurements import Curve, Point, doubts, read
from nccl_logs import log


def logged(path: Path, hosts: int, model: str = "NVIDIA GB200", before: str = "") -> Curve:
    """What is read of a log of `hosts` hosts with four GPUs each."""
    file, ranks = path / "nccl.log", 4 * hosts
    text = log(*map(_row, (2**20, 2**24)), name="sendrecv", ranks=ranks)
    listed = [_device(rank, model) for rank in range(ranks)]
    head, _, rest = text.partition("#  Rank")
    table = rest[rest.index("#\n") :]
    file.write_text(before + head + "\n".join(listed) + "\n" + table)
    (curve,) = read(file).curves
    assert curve.ranks == ranks
    return curve


def _device(rank: int, model: str) -> str:
    host, place = divmod(rank, 4)
    return (
        f"#  Rank {rank:2d} Group  0 Pid {rank:6d} on tray{host} device {place:2d} [0x01] {model}"
    )


def _row(size: int) -> str:
    bandwidth = f"{size / 1e5:7.2f}"
    cells = f"  100.0  {bandwidth}  {bandwidth}      0"
    return f"{size:12d}  {size // 4:12d}     float    none      -1{2 * cells}"


@pytest.mark.parametrize(
    ("hosts", "model", "nodes", "per_node"),
    [
        (18, "NVIDIA GB200", 1, 72),
        (2, "NVIDIA GB300", 1, 8),
        (32, "NVIDIA GB200", 2, 64),
        (19, "NVIDIA GB200", 2, 38),
        (18, "NVIDIA GH200 120GB", 18, 4),
        (18, "NVIDIA B200", 18, 4),
        (18, "NVIDIA GB200 NVL4", 18, 4),
    ],
)
def test_trays_of_a_domain_are_one_node(
    tmp_path: Path, hosts: int, model: str, nodes: int, per_node: int
) -> None:
    curve = logged(tmp_path, hosts, model)
    assert (curve.nodes, curve.gpus_per_node) == (nodes, per_node)
    notes = list(doubts([curve]))
    assert len(notes) == (nodes < hosts)
    assert all(f"{hosts} hosts with {model} taken as trays of {nodes} NVLink" in n for n in notes)


@pytest.mark.parametrize(
    "line",
    [
        "export NCCL_MNNVL_ENABLE=0\n",
        "tray0:1:2 [0] NCCL INFO comm nNodes 18 localRank 0 MNNVL 0\n",
    ],
)
def test_a_log_says_that_hosts_are_nodes(tmp_path: Path, line: str) -> None:
    curve = logged(tmp_path, 18, before=line)
    assert (curve.nodes, list(doubts([curve]))) == (18, [])


def test_the_nodes_of_a_csv_are_what_it_says() -> None:
    point = (Point(2**20, 1e-4),)
    curve = Curve("all_reduce", 72, 18, point, (), "runs.csv", device="NVIDIA GB200")
    (line,) = doubts([curve])
    assert line == (
        "runs.csv: 18 nodes with NVIDIA GB200: if they are trays of NVLink domains, write 1 under "
        "nodes"
    )
