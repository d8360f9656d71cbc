"""Collectives of groups: what `--groups` reads, and the calls at once."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, ClassVar

import pytest
import typer

from experiments.cli import app
from experiments.cli.command_classes import COMMANDS, command_of
from experiments.commands.run_groups import parse_groups
from experiments.options.machine_options import MachineOptions, RuleOptions
from simctl_process import Simctl
from simulator.collectives import find


@dataclass(frozen=True, kw_only=True)
class Place:
    """Two options."""

    city: Annotated[str, typer.Option(help="A city.")] = "Ulm"
    street: Annotated[str | None, typer.Option(help="A street.", hidden=True)] = None


@dataclass(frozen=True, kw_only=True)
class Visit(Place):
    """Visit somebody.

    At once.
    """

    EXAMPLES: ClassVar = ("visit Ada",)
    name: Annotated[str, typer.Argument()]
    again: Annotated[bool, typer.Option("--again")] = False
    note: Annotated[Path | None, typer.Option(writable=True)] = None

    def run(self) -> int:
        """Print itself."""
        typer.echo(self)
        return 3


def test_the_fields_of_a_class_are_options_its_own_first(
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = command_of("visit", Visit)
    names = [option.name for option in command.params]
    assert names == ["name", "again", "note", "city", "street", "help_all"]
    for words, visit in (
        (["Ada"], Visit(name="Ada")),
        (["Ada", "--street", "Main", "--again"], Visit(name="Ada", street="Main", again=True)),
    ):
        assert command.main(words, standalone_mode=False) == 3
        assert capsys.readouterr().out == f"{visit}\n"


def test_a_rare_option_is_in_the_second_help(capsys: pytest.CaptureFixture[str]) -> None:
    shown = []
    for word in ("--help", "--help-all"):
        command_of("visit", Visit).main([word], standalone_mode=False)
        shown.append(capsys.readouterr().out)
    assert ["--street" in text for text in shown] == [False, True]
    assert all("Visit somebody." in text and "simctl visit Ada" in text for text in shown)


def options(group: Any, above: str = "") -> Iterator[tuple[str, Any]]:
    context = typer.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if hasattr(command, "commands"):
            yield from options(command, f"{above}{name} ")
        else:
            yield from ((f"{above}{name}", parameter) for parameter in command.params)


def test_an_option_of_a_machine_is_the_same_for_all_commands() -> None:
    """But for calibrate, whose machine has a default of its own, and whose gap is a flag; and for
    serve, whose machine has one, too, and whose engine is one of models."""
    names = [*MachineOptions.__dataclass_fields__, *RuleOptions.__dataclass_fields__, "profile"]
    for name in names:
        known = {
            (parameter.opts[0], parameter.help)
            for command, parameter in options(typer.main.get_command(app))
            if parameter.name == name
            and command != "calibrate"
            and (command, name) not in (("serve", "engine"), ("serve", "topology"))
        }
        assert len(known) == 1, name


def test_the_summary_of_a_command_is_the_first_line_of_its_docstring() -> None:
    for place, summary in COMMANDS.values():
        if place:
            module, _, name = place.partition(":")
            kind = getattr(import_module(f"experiments.commands.{module}"), name)
            assert summary == kind.__doc__.splitlines()[0]


RING, TREE = find("ring"), find("tree")
STAR = ("--topology", "star", "--latency", "0s", "--bandwidth", "1GB/s")


def test_groups_have_ranks_and_words() -> None:
    plain, full = parse_groups("0-2; 0-4:2,7 tree 1KiB stream=1 after=0;", RING, 8.0)
    assert (plain.algorithm, plain.ranks, plain.nbytes) == (RING, (0, 1, 2), 8.0)
    assert (full.algorithm, full.ranks, full.nbytes) == (TREE, (0, 2, 4, 7), 1024.0)
    assert (full.stream, full.waits) == (1, (0,))


def test_contention_is_shown(command: Simctl) -> None:
    line = ("run", "--algo", "push", "--size", "1GB", "--groups", "0,1;0,2 stream=1", *STAR)
    text = command(*line).stdout
    assert "\n\n2 collectives at once on star" in text
    assert "every call keeps its promise" in text
    report = json.loads(command(*line, "--format", "json").stdout)
    assert [call["time_s"] for call in report["calls"]] == [1.0, 2.0]
    assert [call["alone_s"] for call in report["calls"]] == [1.0, 1.0]
    assert report["calls"][1]["over_alone"] == 2.0
    assert report["wrong"] == ""


def test_calls_are_a_table_and_a_trace(command: Simctl, tmp_path: Path) -> None:
    line = ("run", "--groups", "0-3;4-7;0-7:4 tree", *STAR, "--format", "csv")
    trace = tmp_path / "groups.json"
    rows = command(*line, "--timeline", str(trace)).stdout.splitlines()
    assert [row.split(",")[1] for row in rows[1:]] == ["0-3", "4-7", "0-4:4"]
    names = {event["name"] for event in json.loads(trace.read_text())["traceEvents"]}
    assert any("call 2: tree" in name for name in names) or "call 2: tree" in trace.read_text()
