"""Doubts about times and nodes, and trays of NVLink domains."""

from pathlib import Path

import pytest

from experiments.measurements import Curve, Point, doubts, read, read_all
from nccl_logs import log

SHARED = Path(__file__).parents[4] / "shared" / "measured"


def doubts_about(
    *points: Point, collective: str = "all_reduce", ranks: int | None = 4
) -> list[str]:
    return list(doubts([Curve(collective, ranks, None, points, (), "folder/runs.csv")]))


def test_a_time_of_almost_nothing_is_named_with_its_file_and_row() -> None:
    (line,) = doubts_about(Point(4, 5e-9), Point(8, 1e-5))
    asked = "which is impossible: is its time in microseconds?"
    assert line == f"runs.csv, row of 4B: it takes 5ns, {asked}"


def test_a_bandwidth_beyond_all_memory_is_named() -> None:
    (line,) = doubts_about(Point(8, 1e-5), Point(2**30, 5e-5), Point(2**31, 1e-4))
    assert line.startswith("runs.csv, row of 1GiB: it moves 21.47TB/s, ")
    assert line.endswith("(and 1 more)")


def test_what_many_pairs_move_together_is_more() -> None:
    assert doubts_about(Point(2**30, 5e-5), collective="send_recv", ranks=64) == []
    assert doubts_about(Point(2**30, 5e-5), collective="send_recv", ranks=None) != []


@pytest.mark.parametrize(("ranks", "count"), [(1, 0), (2, 1)])
def test_one_rank_does_nothing_in_place(ranks: int, count: int) -> None:
    curve = Curve("all_reduce", ranks, 1, (Point(2**30, 1.0),), (Point(2**30, 2e-7),), "runs.csv")
    assert len(list(doubts([curve]))) == count


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared measurements are not here")
def test_no_real_machine_is_doubted() -> None:
    assert list(doubts(read_all([SHARED]).curves)) == []


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
