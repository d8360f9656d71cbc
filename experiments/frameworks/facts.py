"""The facts of a job by simctl's names, from the settings of a framework, and what simctl cannot
express."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from experiments.frameworks.arguments import CONDITION
from experiments.frameworks.settings import FileSetting, words_of
from topologies.errors import InputError
from topologies.units import parse_number

Row = Mapping[str, str]
_TORCHTITAN = ("parallelism.", "training.", "activation_checkpoint.")
"""Sections that torchtitan's configurations have."""
_OVERRIDES = ("mixed_precision", "comm_overlap")
"""Sections of Megatron-Bridge whose values replace those of others when a job starts."""


@cache
def key_table(framework: str) -> Mapping[str, Row]:
    """The rows of keys.csv of megatron or torchtitan, by key.

    `use` says what a key does: it is the `key` of a plan called `name`, simctl `take`s it as a
    fact, it changes `none` of time and memory, or simctl means that it is `off`.
    """
    with Path(__file__).with_name("keys.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["framework"] == framework]
    return {key: row for row in rows for key in row["keys"].split()}


@cache
def plan_keys(framework: str) -> frozenset[str]:
    """The facts that are keys of a plan."""
    rows = key_table(framework).values()
    return frozenset(row["name"] for row in rows if row["use"] == "key")


def find_row(framework: str, key: str) -> Row | None:
    """The row of a key: that of the key in its section comes first, then that of a section, then
    those of the key alone and of patterns."""
    table, parts = key_table(framework), re.sub(r"\[\d+\]", "", key).split(".")
    sections = (f"{part}.*" for part in parts[:-1])
    last = ".".join(parts[-2:]), parts[-1]
    for name in (last[0], *sections, last[1]):
        if name in table:
            return table[name]
    return _matching(framework, *last)


@cache
def _matching(framework: str, *names: str) -> Row | None:
    patterns = [item for item in key_table(framework).items() if "*" in item[0]]
    return next(
        (row for pattern, row in patterns for name in names if fnmatchcase(name, pattern)), None
    )


def is_off(value: object, neutral: Iterable[str] = ()) -> bool:
    """Whether a value says that something is off, or is one of the neutral ones."""
    word = words_of(value).lower()
    if word in ("null", "none") or word in neutral:
        return True
    return "true" not in neutral and word in ("false", "", "0", "0.0", "{}")


@dataclass
class JobFacts:
    """The values of a job by simctl's names."""

    framework: str
    is_arguments: bool = False
    """Whether they are arguments of Megatron-LM: what is not said has its default."""
    known: dict[str, FileSetting] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    """What simctl cannot express, with file, line, key and reason."""
    idle: int = 0
    """Keys that change neither time nor memory."""
    unknown_off: int = 0
    """Keys that are not in the table and are off."""

    def __contains__(self, name: str) -> bool:
        return name in self.known

    def word(self, name: str, usual: str = "") -> str:
        """A fact as text."""
        return words_of(self.known[name].value) if name in self.known else usual

    def whole(self, name: str, usual: int, least: int = 0, most: int = 0) -> int:
        """A fact that is a whole number from `least` on, up to `most` unless that is 0. Raises
        InputError, with the place, for another number."""
        word = self.word(name, str(usual))
        if not re.fullmatch(r"-?\d{1,12}", word, re.ASCII):
            unset = ", and the script sets this variable nowhere or in a condition" * ("$" in word)
            raise InputError(f"{self.known[name]}: expected a whole number{unset}")
        if int(word) < least or 0 < most < int(word):
            right = f"{least} to {most}" if most else f"{least} or more"
            raise InputError(f"{self.known[name]}: expected {right}")
        return int(word)

    def yes(self, name: str, usual: bool = False) -> bool:
        """A fact that is yes or no. Raises InputError, with the place, for another one."""
        word = self.word(name, str(usual)).lower()
        if word not in ("true", "false", "yes", "no", "0", "1"):
            raise InputError(f"{self.known[name]}: expected true or false")
        return word in ("true", "yes", "1")

    def is_positive(self, name: str, usual: bool) -> bool:
        """Whether a fact is above 0. Raises InputError, with the place, unless it is a number."""
        if name not in self.known:
            return usual
        try:
            return parse_number(self.word(name)) > 0
        except InputError:
            raise InputError(f"{self.known[name]}: expected a number") from None

    def say(self, name: str, reason: str) -> None:
        """Remark that simctl cannot express a fact."""
        self.remarks.append(f"{self.known[name]}: {reason}")


def facts_of(settings: Sequence[FileSetting], is_arguments: bool) -> JobFacts:
    """The facts of the settings of a file. If a fact is said twice, the last one counts, and those
    of sections that override others come last."""
    is_titan = any(setting.key.startswith(_TORCHTITAN) for setting in settings)
    facts = JobFacts("torchtitan" if is_titan else "megatron", is_arguments)
    experts = [each for each in settings if re.search(r"\bnum_(moe_)?experts$", each.key)]
    dense = is_titan or all(is_off(each.value) for each in experts)
    for setting in sorted(settings, key=lambda each: each.key.startswith(_OVERRIDES)):
        if dense and setting.key.rpartition(".")[2].startswith("moe_"):
            facts.idle += 1
        else:
            _take(facts, setting)
    return facts


def _take(facts: JobFacts, setting: FileSetting) -> None:
    key = setting.key.removeprefix(CONDITION).replace("-", "_")
    row = find_row(facts.framework, key)
    if row is None:
        if is_off(setting.value):
            facts.unknown_off += 1
        else:
            facts.remarks.append(f"{setting}: simctl does not know this key")
    elif row["use"] == "none":
        facts.idle += 1
    elif key != setting.key.replace("-", "_"):
        facts.remarks.append(f"{setting}: a condition says whether it is set: write it outside")
    elif row["use"] == "off":
        if not is_off(setting.value, row["values"].split()):
            facts.remarks.append(f"{setting}: {row['reason']}")
    elif setting.value is not None:
        values = dict(pair.split("=") for pair in row["values"].split())
        word = words_of(setting.value)
        if values and word not in values:
            facts.remarks.append(f"{setting}: simctl knows {', '.join(values)}")
            return
        name, before = row["name"], facts.known.get(row["name"])
        value = values[word] if values else setting.value
        sections = [each.rpartition(".")[0] for each in (setting.key, before.key if before else "")]
        if before and sections[0] == sections[1] and before.value != value:
            facts.remarks.append(f"{before}: {setting.place} replaces it")
        facts.known[name] = setting._replace(value=value)
