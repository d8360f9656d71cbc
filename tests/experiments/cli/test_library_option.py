"""--library: a library on a machine that nobody has measured."""

import csv
import io
import subprocess
from collections.abc import Callable

import pytest

Simctl = Callable[..., "subprocess.CompletedProcess[str]"]
NOTE = "note: nccl on machines like this: population of "


@pytest.mark.parametrize(
    "words",
    [
        ("run", "--algo", "ring", "--p", "8"),
        ("sweep", "--algo", "ring", "--p", "8", "--size", "1MiB"),
        ("recommend", "--p", "8", "--size", "1MiB"),
    ],
)
def test_a_note_says_where_figures_are_from(simctl: Simctl, words: tuple[str, ...]) -> None:
    done = simctl(*words, "--library", "nccl", "--topology", "dgx_a100")
    assert done.returncode == 0
    assert done.stderr.startswith(NOTE)
    assert done.stderr.count("note:") == 1


def test_more_ranks_than_one_node_have_links_between_nodes(simctl: Simctl) -> None:
    """The user does not say how many nodes there are."""
    words = "sweep", "--algo", "ring", "--p", "8,16", "--size", "1KiB", "--format", "csv"
    for machine in ("hgx_h100", "nodes:per_node=8"):
        done = simctl(*words, "--library", "nccl", "--topology", machine)
        inside, between = csv.DictReader(io.StringIO(done.stdout))
        assert float(inside["time_s"]) < float(between["time_s"])


def test_software_takes_longer_than_links(simctl: Simctl) -> None:
    words = "sweep", "--algo", "ring", "--p", "8", "--size", "1KiB", "--topology", "dgx_a100"
    bare, nccl = (
        next(csv.DictReader(io.StringIO(simctl(*words, *more, "--format", "csv").stdout)))
        for more in ((), ("--library", "nccl"))
    )
    assert float(nccl["time_s"]) > 1.5 * float(bare["time_s"])
