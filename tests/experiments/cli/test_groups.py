"""Options that several commands take are declared once."""

from collections.abc import Iterator
from dataclasses import dataclass
from inspect import signature
from typing import Annotated, Any

import typer
from typer.testing import CliRunner

from experiments.cli import app
from experiments.options.groups import with_groups
from experiments.options.machine_options import MachineOptions, RuleOptions


@dataclass(frozen=True)
class Place:
    """Two options."""

    city: Annotated[str, typer.Option(help="A city.")] = "Ulm"
    street: Annotated[str | None, typer.Option(help="A street.")] = None


def test_the_fields_of_a_group_are_options_in_its_place() -> None:
    small = typer.Typer()
    places: list[Place] = []

    @small.command()
    @with_groups
    def visit(name: str, place: Place = Place("Rome"), again: bool = False) -> None:
        places.append(place)

    assert list(signature(visit).parameters) == ["name", "city", "street", "again"]
    for words in (["Ada"], ["Ada", "--street", "Main", "--city", "Bonn"]):
        assert CliRunner().invoke(small, words).exit_code == 0
    assert places == [Place("Rome"), Place("Bonn", "Main")]


def options(group: Any, above: str = "") -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from options(command, f"{above}{name} ")
        else:
            yield from ((f"{above}{name}", parameter) for parameter in command.params)


def test_an_option_of_a_machine_is_the_same_for_all_commands() -> None:
    """But for calibrate, whose machine has a default of its own, and whose gap is a flag."""
    names = [*MachineOptions.__dataclass_fields__, *RuleOptions.__dataclass_fields__, "profile"]
    for name in names:
        known = {
            (parameter.opts[0], parameter.help)
            for command, parameter in options(typer.main.get_command(app))
            if parameter.name == name and command not in ("calibrate", "judge")
        }
        assert len(known) == 1, name
