"""A GOAL file as an algorithm: checked, and not proven."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from experiments.algorithm_files.free_names import free_name, of_file
from experiments.algorithm_files.goal.goal_program import GoalProgram
from experiments.algorithm_files.goal.goal_schedule import LogGOPS, schedule_of
from simulator.collectives import Algorithm, Collective
from simulator.collectives.collective import none, nothing
from simulator.cost_models.cost_model import NO_FORMULA
from topologies.errors import InputError
from topologies.units import parse_bytes, parse_seconds

NOT_PROVEN = "not proven, as GOAL carries no data"
UNKNOWN_COST = replace(NO_FORMULA, unclaimed=NOT_PROVEN)


MESSAGES = Collective("messages", nothing, none, none, none, none)
"""What GOAL's messages promise: nothing."""


def algorithm_of(program: GoalProgram, file: str, options: str) -> Algorithm:
    """A program as an algorithm for its number of ranks. `options` are o, O and S, like
    o=1.5us,S=64KiB."""
    rules = parse_rules(options)
    kinds = [operation.kind for operation in program.operations]
    summary = f"GOAL, {kinds.count('send')} messages, {kinds.count('calc')} computations"
    write = partial(schedule_of, program, rules, file)
    name = free_name(Path(file).stem, "goal")
    return of_file(name, MESSAGES, write, summary, program.ranks, UNKNOWN_COST)


def parse_rules(text: str) -> LogGOPS:
    """The options of LogGOPS.

    >>> parse_rules("o=1us,S=1KiB")
    LogGOPS(o=1e-06, O=0.0, S=1024.0)
    """
    rules = LogGOPS()
    for part in filter(None, text.split(",")):
        key, equals, value = part.partition("=")
        if key in ("L", "g", "G"):
            raise InputError(f"option {key}: L, g and G are those of the machine: --latency, ...")
        if key not in LogGOPS._fields or not equals:
            raise InputError(f"option {part[:40]!r}: write o=1.5us, O=0ns or S=64KiB")
        try:
            rules = rules._replace(**{key: _rule(key, value)})
        except InputError as error:
            raise InputError(f"option {part[:40]!r}: {error}") from None
    return rules


def _rule(key: str, text: str) -> float:
    if key != "S":
        return parse_seconds(text)
    return 0.0 if text == "0" else parse_bytes(text)
