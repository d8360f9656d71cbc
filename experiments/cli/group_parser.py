"""From the text of --groups to calls of collectives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from experiments.commands import run_groups
from experiments.options.machine_options import RuleOptions
from experiments.options.rank_list import parse_rank_list
from experiments.options.values import parse_rank_count
from experiments.output import RunFiles
from simulator.collectives import Algorithm, find
from simulator.steps.group_calls import GroupCall
from topologies.catalogue import Blueprint
from topologies.errors import InputError
from topologies.units import parse_bytes, parse_whole

NOUNS = {"algorithm": "algorithm", "nbytes": "size", "stream": "stream", "waits": "wait"}
"""What the words of a call set, by the fields of a call."""


@dataclass(frozen=True)
class GroupOptions:
    """What the user writes of groups."""

    text: str
    algorithm: Algorithm
    size: str
    ranks: str | None
    refused: Mapping[str, str | None]
    """Options that groups do not take, by name."""

    def run(self, machine: Blueprint, rules: RuleOptions, files: RunFiles, how: str) -> int:
        """Simulate them; the exit code. Raises InputError for what groups do not take."""
        for name, value in self.refused.items():
            if value is not None:
                raise InputError(f"--groups and --{name} {value}: leave one of them out")
        calls = parse_groups(self.text, self.algorithm, parse_bytes(self.size))
        most = max(max(call.ranks) for call in calls) + 1
        ranks = most if self.ranks is None else parse_rank_count(self.ranks)
        blueprint = replace(machine, force=rules.force)
        return run_groups.run(
            run_groups.Request(
                calls,
                max(2, ranks),
                blueprint,
                rules.rules,
                {"groups": self.text, "algo": self.algorithm.name, "size": self.size}
                | {"topology": machine.text},
            ),
            files,
            how,
        )


def parse_groups(text: str, algorithm: Algorithm, nbytes: float) -> list[GroupCall]:
    """Calls from text like "0-7; 8-15 tree 1MiB stream=1 after=0".

    A call has ranks, and words in any order: an algorithm, a size, a stream, and earlier calls to
    wait for. `algorithm` and `nbytes` are those of calls that name none.

    >>> ring = find("ring")
    >>> [call.ranks for call in parse_groups("0-3; 0-6:2,7", ring, 1.0)]
    [(0, 1, 2, 3), (0, 2, 4, 6, 7)]
    """
    return [_call(part.split(), algorithm, nbytes) for part in text.removesuffix(";").split(";")]


def _call(words: list[str], algorithm: Algorithm, nbytes: float) -> GroupCall:
    if not words:
        raise InputError("--groups: a group is empty: write ranks like 0-7;8-15")
    call = GroupCall(algorithm, parse_rank_list("--groups", words[0]), nbytes)
    values: dict[str, Any] = {}
    for word in words[1:]:
        key, value = _value(word)
        if key in values:
            raise InputError(f"--groups: {word}: the {NOUNS[key]} is given twice")
        values[key] = value
    return replace(call, **values)


def _value(word: str) -> tuple[str, Any]:
    """The field of a call that a word sets, and its value."""
    key, equals, text = word.partition("=")
    try:
        if equals and key == "stream":
            return key, parse_whole(text)
        if equals and key == "after":
            return "waits", tuple(map(parse_whole, text.split(",")))
    except InputError as error:
        raise InputError(f"--groups: {word[:40]}: {error}") from None
    return ("nbytes", parse_bytes(word)) if word[0].isdigit() else ("algorithm", find(word))
