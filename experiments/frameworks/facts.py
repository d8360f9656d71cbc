"""The facts of a job by simctl's names, from the settings of a framework, and what simctl cannot
express."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from experiments.frameworks.arguments import CONDITION
from experiments.frameworks.settings import FileSetting, words_of
from experiments.shipped_tables import rows_of
from topologies.errors import InputError, naming
from topologies.units import parse_number

Row = Mapping[str, str]
_TORCHTITAN = ("parallelism.", "training.", "activation_checkpoint.")
"""Sections that torchtitan's configurations have."""
_OVERRIDES = ("mixed_precision", "comm_overlap")
"""Sections of Megatron-Bridge whose values replace those of others when a job starts."""


@cache
def key_table(framework: str) -> Mapping[str, Row]:
    """The rows of keys.csv of megatron or torchtitan, by key.

    `use` says what a key does: it is the `key` of a plan called `name`, the `size` of a model,
    simctl `take`s it as a fact, it changes `none` of time and memory, or simctl means that it is
    `off`. `kind` says what a fact is: words, `bool`, `positive`, or a whole number like 1..4096.
    `usual` is its value where a file does not say. `values` has the words of the framework with
    those of simctl; a word with none changes nothing.
    """
    rows = rows_of(Path(__file__).with_name("keys.csv"))
    mine = [row for row in rows if row["framework"] == framework]
    return {key: row for row in mine for key in row["keys"].split()}


@cache
def rows_by_name(framework: str, use: str = "") -> Mapping[str, Row]:
    """The rows of facts by name: all of them, or those of a use."""
    rows = key_table(framework).values()
    return {row["name"]: row for row in rows if row["name"] and use in ("", row["use"])}


@cache
def find_row(framework: str, key: str) -> Row | None:
    """The row of a key: that of the key in its sections comes first, then that of the key alone.
    At each, a name comes before patterns."""
    table, parts = key_table(framework), re.sub(r"\[\d+\]", "", key).replace("-", "_").split(".")
    for start in range(len(parts)):
        name = ".".join(parts[start:])
        patterns = (each for each in table if "*" in each and fnmatchcase(name, each))
        if match := name if name in table else next(patterns, None):
            return table[match]
    return None


def is_off(value: object, neutral: Iterable[str] = ()) -> bool:
    """Whether a value says that something is off, or is one of the neutral ones."""
    word = words_of(value).lower()
    if word in ("null", "none") or word in neutral:
        return True
    return "true" not in neutral and word in ("false", "", "0", "0.0", "{}")


def _value(kind: str, word: str) -> Any:
    """The value of a word of a kind. Raises InputError for a wrong one."""
    if kind == "bool":
        if word.lower() not in ("true", "false", "yes", "no", "0", "1"):
            raise InputError("expected true or false")
        return word.lower() in ("true", "yes", "1")
    if kind == "positive":
        try:
            return parse_number(word) > 0
        except InputError:
            raise InputError("expected a number") from None
    if not kind:
        return word
    if not re.fullmatch(r"-?\d{1,12}", word, re.ASCII):
        unset = ", and the script sets this variable nowhere or in a condition" * ("$" in word)
        raise InputError(f"expected a whole number{unset}")
    least, most = kind.split("..")
    if not int(least) <= int(word) <= int(most or word):
        raise InputError(f"expected {least} to {most}" if most else f"expected {least} or more")
    return int(word)


@dataclass
class JobFacts:
    """The values of a job by simctl's names."""

    framework: str
    is_arguments: bool = False
    """Whether they are arguments of Megatron-LM: what is not said has its default."""
    settings: dict[str, FileSetting] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    """What simctl cannot express, with file, line, key and reason."""
    idle: int = 0
    """Keys that change neither time nor memory."""
    unknown_off: int = 0
    """Keys that are not in the table and are off."""

    def __contains__(self, name: str) -> bool:
        return name in self.settings

    def __getitem__(self, name: str) -> Any:
        """A fact, or its usual value. Raises InputError, with the place, for a wrong one."""
        row, setting = rows_by_name(self.framework)[name], self.settings.get(name)
        word = row["usual"] if setting is None else words_of(setting.value)
        if row["kind"] and setting is None and not word:
            return None
        with naming(setting):
            return _value(row["kind"], word)

    def say(self, name: str, reason: str) -> None:
        """Remark that simctl cannot express a fact."""
        self.remarks.append(f"{self.settings[name]}: {reason}")


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
    row = find_row(facts.framework, setting.key)
    if row is None:
        if is_off(setting.value):
            facts.unknown_off += 1
        else:
            facts.remarks.append(f"{setting}: simctl does not know this key")
    elif row["use"] == "none":
        facts.idle += 1
    elif setting.key.startswith(CONDITION):
        facts.remarks.append(f"{setting}: a condition says whether it is set: write it outside")
    elif row["use"] == "off":
        if not is_off(setting.value, row["values"].split()):
            facts.remarks.append(f"{setting}: {row['reason']}")
    elif setting.value is not None:
        _keep(facts, setting._replace(value=words_of(setting.value)), row)


def _keep(facts: JobFacts, setting: FileSetting, row: Row) -> None:
    """Take a setting as a fact, in simctl's words."""
    words = dict(pair.split("=") for pair in row["values"].split())
    pattern = next((each for each in words if fnmatchcase(setting.value, each)), None)
    if words and pattern is None:
        facts.remarks.append(f"{setting}: simctl knows {', '.join(words)}")
        return
    name, previous = row["name"], facts.settings.get(row["name"])
    value = setting.value if pattern is None else words[pattern]
    if value or not words:
        facts.settings[name] = setting._replace(value=value)
    elif previous and find_row(facts.framework, previous.key) is row:
        del facts.settings[name]
    if not previous or previous is facts.settings.get(name) or previous.value == value:
        return
    if previous.key.rpartition(".")[0] == setting.key.rpartition(".")[0]:
        facts.remarks.append(f"{previous}: {setting.place} replaces it")
