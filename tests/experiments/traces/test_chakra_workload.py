"""Chakra workloads on our machines: their times, and what is refused."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from chakra_files import MICROBENCHMARK, collective, compute, folder, receive, send
from experiments.traces import chakra_folder
from experiments.traces.chakra_nodes import METADATA, ChakraNode, write
from refusals import refusal
from simctl_process import Simctl, mistake

STAR = ("--topology", "star", "--latency", "0s", "--bandwidth", "1GB/s")
ALL_REDUCE, ALL_GATHER, ALL_TO_ALL, REDUCE_SCATTER, BARRIER = 0, 2, 6, 7, 9


def report(simctl: Simctl, path: Path, *options: str) -> dict[str, Any]:
    done = simctl("run", "--chakra", path, *options, "--format", "json")
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


@pytest.mark.parametrize(
    ("kind", "algorithm", "nbytes"),
    [
        (ALL_REDUCE, "ring", 2**20),
        (ALL_GATHER, "ring_all_gather", 4 * 2**20),
        (ALL_TO_ALL, "pairwise", 2**20),
        (REDUCE_SCATTER, "ring_reduce_scatter", 2**20),
        (1, "chain_reduce", 2**20),
        (3, "linear_gather", 4 * 2**20),
        (4, "linear_scatter", 2**20),
        (5, "chain_broadcast", 2**20),
        (BARRIER, "dissemination_barrier", 2**20),
    ],
)
def test_a_call_takes_what_its_algorithm_takes(
    simctl: Simctl, tmp_path: Path, kind: int, algorithm: str, nbytes: int
) -> None:
    """comm_size is the input of a rank."""
    path = folder(tmp_path, [[collective(0, kind, 2**20)]] * 4)
    time = report(simctl, path, "--topology", "hgx_h100")["time_s"]
    alone = ("run", "--algo", algorithm, "--p", 4, "--size", f"{nbytes}B", "--format", "json")
    done = simctl(*alone, "--topology", "hgx_h100")
    summary = json.loads(done.stdout)["summary"]
    assert time == pytest.approx(summary["time_s"], rel=1e-12)


def test_a_file_of_astra_sim_runs(simctl: Simctl, tmp_path: Path) -> None:
    for rank in range(4):
        (tmp_path / f"all_gather.{rank}.et").write_bytes(MICROBENCHMARK)
    assert report(simctl, tmp_path, *STAR)["time_s"] == pytest.approx(3 * 2**20 / 1e9)


def test_computations_hide_calls_of_other_groups(simctl: Simctl, tmp_path: Path) -> None:
    """Rank 2 is late: ranks 0 and 2 wait for each other, ranks 1 and 3 do not."""
    ranks = [
        [
            compute(1, 4000 if rank == 2 else 1000),
            collective(2, ALL_REDUCE, 10**6, 1, pg_name="even" if rank % 2 == 0 else "odd"),
            compute(3, 2000, 1),
            compute(4, 500, 2, 3),
        ]
        for rank in range(4)
    ]
    path = folder(tmp_path, ranks, {"even": [0, 2], "odd": [1, 3]})
    result = report(simctl, path, *STAR)
    assert [row["computing_s"] for row in result["ranks"]] == pytest.approx(
        [3.5e-3, 3.5e-3, 6.5e-3, 3.5e-3]
    )
    assert [row["hidden_s"] for row in result["ranks"]] == pytest.approx([2e-3, 1e-3, 1e-3, 1e-3])
    assert [row["exposed_s"] for row in result["ranks"]] == pytest.approx(
        [2e-3, 0, 0, 0], abs=1e-12
    )
    assert [row["ends_s"] for row in result["ranks"]] == pytest.approx(
        [5.5e-3, 3.5e-3, 6.5e-3, 3.5e-3]
    )
    assert result["time_s"] == pytest.approx(6.5e-3)
    assert result["communication"][0]["calls"] == 2
    assert sum(result["critical_path_s"].values()) == pytest.approx(6.5e-3)
    assert result["longest"][0] == {"task": "compute 1", "rank": 2, "seconds": 4e-3}


def test_a_table_and_csv_are_printed(simctl: Simctl, tmp_path: Path) -> None:
    path = folder(tmp_path, [[compute(0, 10), collective(1, ALL_REDUCE, 100, 0)]] * 2)
    done = simctl("run", "--chakra", path, *STAR, "--timeline", tmp_path / "line.svg")
    text = done.stdout
    assert "\n\nWorkload of 2 ranks on star" in text
    assert "Where the time goes (the critical path)\n  part" in text
    rows = simctl("run", "--chakra", path, *STAR, "--format", "csv").stdout.splitlines()
    assert rows[0] == "rank,time_s,ends_s,computing_s,hidden_s,exposed_s,idle_s,cpu_s"
    assert len(rows) == 3


def test_streams_are_in_order_and_the_cpu_runs_beside_the_gpu(
    simctl: Simctl, tmp_path: Path
) -> None:
    nodes = [
        compute(0, 1000, stream=7),
        compute(1, 1000, stream=20),
        collective(2, ALL_REDUCE, 10**6, stream=20),
        compute(3, 5000, is_cpu_op=1),
        compute(4, 1000, stream=20),
    ]
    first = report(simctl, folder(tmp_path, [nodes] * 2), *STAR)["ranks"][0]
    assert first["computing_s"] == pytest.approx(2e-3)
    assert first["exposed_s"] == pytest.approx(1e-3)
    assert first["cpu_s"] == pytest.approx(5e-3)


def test_messages_match_by_ranks_and_order(simctl: Simctl, tmp_path: Path) -> None:
    ranks = [
        [send(0, 1, 10**6), send(1, 1, 10**6, 0), receive(2, 1, 10**6, 1)],
        [receive(0, 0, 10**6), receive(1, 0, 10**6, 0), send(2, 0, 10**6, 1)],
    ]
    result = report(simctl, folder(tmp_path, ranks), *STAR)
    assert result["time_s"] == pytest.approx(3e-3)
    assert result["communication"] == [
        {"collective": "send", "calls": 3, "size_B": 3e6, "time_s": 3e-3, "longest_s": 1e-3}
    ]


def test_operations_take_time_on_a_known_gpu(simctl: Simctl, tmp_path: Path) -> None:
    path = folder(tmp_path, [[compute(0, 0, num_ops=10**12, tensor_size=10**6)]])
    assert 1e-3 < report(simctl, path, "--topology", "hgx_h100")["time_s"] < 4e-3
    assert "has operations and no duration" in mistake(simctl("run", "--chakra", path, *STAR))


def test_groups_of_torch_are_in_a_node(simctl: Simctl, tmp_path: Path) -> None:
    text = """['[{"pg_name": "3", "ranks": [0, 2]}, {"pg_name": "4", "ranks": []}]']"""
    ranks = [
        [
            ChakraNode(0, "## process_group:init ##", METADATA, values=text),
            *([collective(1, ALL_REDUCE, 10**6, pg_name="3")] if rank != 1 else []),
            collective(2, ALL_REDUCE, 10**6, pg_name="4"),
        ]
        for rank in range(3)
    ]
    result = report(simctl, folder(tmp_path, ranks), *STAR)
    assert result["communication"][0]["calls"] == 2


def test_the_user_names_the_algorithm_of_each_collective(simctl: Simctl, tmp_path: Path) -> None:
    path = folder(tmp_path, [[collective(0, ALL_REDUCE, 2**20), collective(1, ALL_GATHER, 64)]] * 4)
    usual = report(simctl, path, *STAR)["time_s"]
    assert report(simctl, path, "--algo", "naive,ring_all_gather", *STAR)["time_s"] > usual
    for options, words in (
        (("--algo", "ring,tree"), "--algo tree: name one algorithm of all_reduce"),
        (("--algo", "shift"), "--algo shift: traces call all_reduce"),
        (("--p", "4"), "--chakra and --p 4: leave one of them out"),
        (("--root", "1"), "--chakra and --root 1: leave one of them out"),
    ):
        assert words in mistake(simctl("run", "--chakra", path, *options))


def test_waits_for_nodes_that_are_not_there_are_left_out(simctl: Simctl, tmp_path: Path) -> None:
    done = simctl("run", "--chakra", folder(tmp_path, [[compute(0, 5, 99, 98)]]), *STAR)
    assert "left out 2 waits for nodes that it does not hold" in done.stderr


CALL = collective(0, ALL_REDUCE, 8)
REFUSED: dict[str, tuple[Sequence[Sequence[ChakraNode]], str]] = {
    "circle": ([[compute(1, 1, 2), compute(2, 1, 1)]], "2 nodes wait for each other in a circle"),
    "itself": ([[compute(1, 1, 1)]], "in a circle, like node 1"),
    "same id": ([[compute(1, 1), compute(1, 1)]], "two nodes with the id 1"),
    "unknown collective": (
        [[collective(0, 12, 8)]] * 2,
        "the comm_type 12: collectives are 0 to 9",
    ),
    "missing call": ([[CALL], [compute(0, 1)]], "rank 1 calls 0 collectives of group ''"),
    "other size": ([[CALL], [collective(0, ALL_REDUCE, 9)]], "is all_reduce of 9 bytes"),
    "other kind": ([[CALL], [collective(0, ALL_GATHER, 8)]], "is all_gather of 8 bytes"),
    "negative size": ([[collective(0, ALL_REDUCE, -1)]] * 2, "the comm_size -1: expected a whole"),
    "text as size": ([[collective(0, 0, 8, comm_size="a")]] * 2, "the comm_size 'a': expected"),
    "unknown group": ([[collective(0, 0, 8, pg_name="7")]] * 2, "whose ranks are unknown"),
    "lost message": ([[send(0, 1, 8)], [compute(0, 1)]], "which receives 0"),
    "send to nobody": ([[send(0, 5, 8)], [compute(0, 1)]], "is from rank 0 to 5"),
    "send to itself": ([[send(0, 0, 8)], [compute(0, 1)]], "is from rank 0 to 0"),
    "crossed": (
        [
            [receive(0, 1, 8), send(1, 1, 8, 0)],
            [receive(0, 0, 8), send(1, 0, 8, 0)],
        ],
        "4 tasks wait for each other in a circle",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_wrong_workloads_are_refused(simctl: Simctl, tmp_path: Path, case: str) -> None:
    ranks, words = REFUSED[case]
    assert words in mistake(simctl("run", "--chakra", folder(tmp_path, ranks), *STAR))


def test_more_traces_than_any_job_has_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for rank in range(2):
        (tmp_path / f"job.{rank}.et").touch()
    monkeypatch.setattr(chakra_folder, "MOST_FILES", 1)
    words = f"{str(tmp_path)!r} holds 2 traces: at most 1"
    assert words in refusal(chakra_folder.read_folder, tmp_path)


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, "holds no Chakra traces"),
        ({"a.0.et": CALL, "a.2.et": CALL}, "has no trace of rank 1"),
        ({"a.0.et": CALL, "b.1.et": CALL}, "the traces of several jobs, 'a' and 'b'"),
        (
            {
                "a.0.et": CALL,
                "x.json": "{",
            },
            "x.json is no JSON",
        ),
        ({"a.0.et": CALL, "x.json": "[]"}, "x.json holds no groups"),
        ({"a.0.et": CALL, "x.json": '{"1": [0, 1]}'}, "expected ranks from 0 to 0"),
        ({"a.0.et": CALL, "x.json": "{}", "y.json": "{}"}, "holds several JSON files"),
    ],
)
def test_wrong_folders_are_refused(
    simctl: Simctl, tmp_path: Path, files: dict[str, ChakraNode | str], words: str
) -> None:
    for name, content in files.items():
        data = content.encode() if isinstance(content, str) else write([content])
        (tmp_path / name).write_bytes(data)
    assert words in mistake(simctl("run", "--chakra", tmp_path, *STAR))
    nowhere = simctl("run", "--chakra", tmp_path / "none")
    assert "name a folder of Chakra traces" in nowhere.stderr
