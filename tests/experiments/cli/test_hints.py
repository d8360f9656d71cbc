"""What the command line answers to words that are nearly right."""

from pathlib import Path

import pytest

from grouped_cases import each_case
from simctl_process import Simctl, mistake


@each_case(
    ("line", "answer"),
    [
        ("sweep --topology hgx_h100 --nodes 4", "write it in --topology, like hgx_h100:nodes=4"),
        ("run --size 1e9", "'1e9' has no unit: write 1GB or 1000000000B"),
        ("run --size 4", "'4' has no unit: write 4B or 4MB"),
        ("run --size 64M", "'64M' has no unit: write 64MB or 64MiB"),
        ("run --topology b2000", "did you mean 'b200'?"),
        ("run --algo bruck", "choose one of bruck_all_gather, bruck_all_to_all"),
        ("run --algo all", "simctl sweep --collective all_reduce takes all of it"),
        ("train --strategy zero3", "take fsdp, or a plan of any stage, like simctl plan zero=3"),
        ("train --strategy zero-1", "plan zero=1,micro=1"),
        ("train --strategy fsdp2", "take fsdp, or a plan of any stage, like simctl plan zero=2"),
        ("train llama3_8b", "write the model as --model llama3_8b"),
        ("report a.csv --out b.txt", "b.txt"),
        ("train --plan dp=2", "it is a command: simctl plan dp=8"),
        ("run ring --algo tree", "ring and --algo tree: leave one of them out"),
        ("animate ring --algo tree --out x.html", "ring and --algo tree: leave one of them out"),
    ],
)
def test_a_mistake_names_what_to_type(line: str, answer: str, simctl: Simctl) -> None:
    assert answer in mistake(simctl(*line.split()))


def test_the_algorithm_is_a_word(simctl: Simctl) -> None:
    for command in ("run", "sweep"):
        word = simctl(command, "tree", "--p", "4", "--size", "1KiB")
        assert word.returncode == 0
        assert word.stdout == simctl(command, "--algo", "tree", "--p", "4", "--size", "1KiB").stdout


@pytest.mark.parametrize("command", ["run ring --p 3", "topo show dgx1"])
def test_plot_draws_the_picture_of_a_command(command: str, simctl: Simctl, tmp_path: Path) -> None:
    assert simctl(*command.split(), "--plot", tmp_path / "x.svg").returncode == 0
    assert (tmp_path / "x.svg").read_text().startswith("<?xml")


def test_a_step_without_a_library_says_what_is_missing(simctl: Simctl) -> None:
    line = ("train", "--model", "resnet50", "--p", "2")
    free = "software, which starts collectives"
    assert free in simctl(*line).stdout
    assert free not in simctl(*line, "--library", "nccl", "--topology", "hgx_h100").stdout
