"""The table of families, on a folder made for it."""

from pathlib import Path

import pytest

from experiments.studies.accuracy import accuracies, main
from simulator.collectives import find
from simulator.engines import simulate
from topologies.shapes import star

INDEX = """case,family,collective,ranks,nodes,algorithm,note
one_ring,F1 first,all_reduce,4,4,NCCL_ALGO=Ring,
one_tree,F1 first,all_reduce,4,4,binomial tree,
short,F2 second,all_reduce,4,4,,one size
odd,F2 second,alltoallw,4,4,,no algorithm for it
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Exact times of a ring and of a tree, a curve of one size, and a collective that nobody
    simulates."""
    (tmp_path / "index.csv").write_text(INDEX)
    (tmp_path / "curves").mkdir()
    for case, algorithm in (("one_ring", "ring"), ("one_tree", "tree")):
        rows = ["size_bytes,time_us"]
        for size in (1024, 2**16, 2**20, 2**24, 2**28):
            seconds = simulate(
                find(algorithm).build(4, float(size)), star(4, bandwidth=1e9, latency=2e-6)
            ).makespan
            rows.append(f"{size},{seconds * 1e6}")
        (tmp_path / "curves" / f"{case}.csv").write_text("\n".join(rows))
    for case in ("short", "odd"):
        (tmp_path / "curves" / f"{case}.csv").write_text("size_bytes,time_us\n1024,10\n")
    return tmp_path


def test_forced_algorithms_are_simulated_as_such_and_exact_times_leave_no_error(
    folder: Path,
) -> None:
    accuracy_of = {accuracy.case: accuracy for accuracy in accuracies(folder)}
    assert {case: accuracy.algorithm for case, accuracy in accuracy_of.items()} == {
        "one_ring": "ring",
        "one_tree": "tree",
    }
    assert all(accuracy.unseen < 1e-6 for accuracy in accuracy_of.values())


def test_what_is_left_out_is_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed = main(folder)
    assert printed.splitlines()[1].startswith("F1 first       2")
    messages = capsys.readouterr().err
    assert "short: too few sizes to fit" in messages
    assert "odd: nothing to simulate unknown with" in messages
