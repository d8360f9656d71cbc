"""What is said of mistakes: one line that names the value and what would be right, exit code 2, and
nothing half-written. The tables have a mistake a line."""

import shlex
import tomllib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from shutil import copy

import pytest

import simctl_process
from experiments.measure.points import parse_names
from experiments.models.block_cut import parse_recomputation
from experiments.models.model_catalogue import find as find_model
from experiments.models.model_catalogue import find_transformer
from experiments.options.condition_parser import parse_epochs, slow_links
from experiments.options.pattern_options import parse_table
from experiments.parallel.plan_space import Space, parse_space
from experiments.parallel.plan_text import parse_plan
from experiments.serving.deployment import parse_cut
from experiments.training.strategy_options import find as find_strategy
from refusals import message_of, refusal
from shipped_shapes import training
from simctl_process import Simctl, mistake
from simulator.collectives import find as find_algorithm
from simulator.parallel.pipelines.pipeline import read_pipeline
from topologies.catalogue import find as find_machine
from topologies.clusters import cluster
from topologies.readers.files import to_yaml
from topologies.readers.placements import host_names
from topologies.shapes import star
from topologies.variants import parse_placement, placed

MISTAKES = Path(__file__).parent / "mistakes"
COMMANDS: dict[str, dict[str, str]] = tomllib.loads((MISTAKES / "commands.toml").read_text())
TEXTS: dict[str, dict[str, str]] = tomllib.loads((MISTAKES / "texts.toml").read_text())
LOG = Path(__file__).parents[1] / "examples" / "h100_10_nodes_all_reduce.csv"
RUNS = "collective,algorithm,library,ranks,nodes,size_bytes,time_us\n" + "".join(
    f"all_reduce,ring,MPI,8,8,{size},{time}\n" for size, time in ((1024, 38), (8192, 50))
)
LEAVES = "SwitchName=leaf1 Nodes=n[1-2]\nSwitchName=leaf2 Nodes=n[3-4]\n"
SMALL_GPT = training("gpt3_1_7b:layers=4,hidden=512,heads=8,seq=256")

PARSERS: dict[str, Callable[[str], object]] = {
    "--epochs": parse_epochs,
    "--slow-link": slow_links,
    "algorithm": find_algorithm,
    "algorithm for 4 ranks": lambda text: find_algorithm(text).build(4, 1.0),
    "cut of a deployment": parse_cut,
    "hosts": lambda text: [*host_names(text)],
    "machine": find_machine,
    "machine with 8 ranks": lambda text: find_machine(text).build(8),
    "model": find_model,
    "names to measure": parse_names,
    "pipeline": lambda text: read_pipeline(text, "a.csv"),
    "placement": parse_placement,
    "placement of 4 ranks": lambda text: placed(star(4, bandwidth=1e9), parse_placement(text)),
    "plan": parse_plan,
    "plan of 16 GPUs": partial(parse_plan, gpus=16),
    "plan of 64 GPUs": partial(parse_plan, gpus=64),
    "recomputation": parse_recomputation,
    "search": lambda text: Space(SMALL_GPT, 8, 4, parse_space(text)).plans(),
    "shape of a model": find_transformer,
    "strategy": find_strategy,
    "table of sizes": lambda text: parse_table(text, "m"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The files that wrong command lines name."""
    copy(LOG, tmp_path / "h100.csv")
    (tmp_path / "dgx1.yaml").write_text(to_yaml(cluster("dgx1")))
    (tmp_path / "runs.csv").write_text(RUNS)
    (tmp_path / "topology.conf").write_text(LEAVES)
    return tmp_path


def check(start: str, simctl: Simctl, folder: Path) -> None:
    """Lines that begin with `start` are refused for their reasons."""
    files = sorted(folder.iterdir())
    for words, reason in COMMANDS[start].items():
        line = mistake(simctl(*shlex.split(f"{start} {words}"), cwd=folder))
        assert line.startswith("simctl: "), words
        assert reason in line, words
        assert sorted(folder.iterdir()) == files, f"{words}: something is half-written"


@pytest.mark.parametrize("start", COMMANDS)
def test_a_wrong_command_line_gets_one_line_and_exit_code_2(
    start: str, simctl: Simctl, folder: Path
) -> None:
    check(start, simctl, folder)


@pytest.mark.exhaustive
def test_a_process_of_its_own_refuses_the_same(folder: Path) -> None:
    check("sweep", simctl_process.simctl, folder)


@pytest.mark.parametrize("kind", TEXTS)
def test_a_wrong_text_gets_one_line(kind: str) -> None:
    for text, reason in TEXTS[kind].items():
        line = refusal(PARSERS[kind], text)
        begins = reason.removesuffix("...")
        assert line == reason or (line.startswith(begins) and begins != reason), text


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("machine", f"dgx1:nics={'9' * 5000}"),
        ("names to measure", "x" * 10_000),
        ("pipeline", f"0F0,0B{'9' * 5000}"),
        ("pipeline", "," * 2**21),
        ("strategy", f"ddp:streams={'9' * 5000}"),
        ("table of sizes", "1," * 3000 + "1"),
    ],
)
def test_a_long_text_gets_a_short_line(kind: str, text: str) -> None:
    assert len(refusal(PARSERS[kind], text)) < 400


def test_an_unknown_option_of_a_strategy_is_answered_with_all() -> None:
    head, *options = message_of(find_strategy, "ddp:bukcet=1MiB").splitlines()
    assert "did you mean 'bucket'?" in head
    assert len(options) > 10
