"""A GOAL file as an algorithm: checked, and not proven."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from experiments.algorithm_files.free_names import free_name
from experiments.algorithm_files.goal.goal_program import GoalProgram
from experiments.algorithm_files.goal.goal_schedule import LogGOPS, schedule_of
from simulator.collectives import Algorithm, Collective
from simulator.cost_models.cost_model import NO_FORMULA
from simulator.schedules.schedule import Schedule
from simulator.schedules.semantics import Chosen, Data, Promise
from topologies.errors import InputError
from topologies.units import parse_bytes, parse_seconds

NOT_PROVEN = "not proven, as GOAL carries no data"
UNKNOWN_COST = replace(NO_FORMULA, unclaimed=NOT_PROVEN)


def _nothing(before: Data, chosen: Chosen = None) -> Promise:
    return np.zeros(before.shape, dtype=np.bool_), before


def _zero(ranks: int) -> float:
    return 0.0


MESSAGES = Collective("messages", _nothing, _zero, _zero, _zero, _zero)
"""What GOAL's messages promise: nothing."""


def algorithm_of(program: GoalProgram, file: str, options: str) -> Algorithm:
    """A program as an algorithm for its number of ranks. `options` are o, O and S, like
    o=1.5us,S=64KiB."""
    rules = parse_rules(options)

    @cache
    def whole() -> Schedule:
        return schedule_of(program, rules, file)

    def schedule(ranks: int, nbytes: float) -> Schedule:
        return whole().scaled(nbytes)

    kinds = [operation.kind for operation in program.operations]
    summary = f"GOAL, {kinds.count('send')} messages, {kinds.count('calc')} computations"
    return Algorithm(
        free_name(Path(file).stem, "goal"),
        MESSAGES,
        schedule,
        UNKNOWN_COST,
        summary,
        defined=lambda ranks: ranks == program.ranks,
    )


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
