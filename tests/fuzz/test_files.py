"""Mutated files of every format: a reader answers, or refuses in one line; nothing else."""

import functools
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

import file_readers
from costs import Cost, counted
from experiments.traces.flight_recorder import PICKLE, unpickled
from file_mutations import MUTATIONS, mutated
from file_readers import READERS
from file_seeds import seeds
from fuzz_findings import Finding, Request, place_of
from refusals import attempt
from topologies.errors import InputError

SHARES = {
    "measurements": 0.14,
    "topology": 0.25,
    "model": 0.12,
    "config": 0.03,
    "profile": 0.1,
    "index of a folder": 0.05,
    "runs to resume": 0.05,
    "journal": 0.03,
    "noise": 0.04,
    "hosts": 0.04,
    "serving points": 0.03,
    "sizes": 0.03,
    "program": 0.04,
    "pipeline": 0.02,
    "job file": 0.05,
    "workload": 0.05,
    "job": 0.05,
    "result": 0.05,
}
"""Of the count: the more a format can say, the more."""
LINE = 2000
"""Characters of a line that a person still reads."""


class Case(NamedTuple):
    """A file, and where it came from."""

    name: str
    path: Path
    how: tuple[str, ...]


def cases(reader: str, count: int, seed: int, folder: Path) -> Iterator[Case]:
    """Mutated files one after the other, each of which takes the place of the one before."""
    whole = seeds(reader)
    all_data = [seed_file.data for kind in READERS for seed_file in seeds(kind)]
    for number in range(count):
        random = Random(f"{seed} {reader} {number}")
        seed_file = whole[number % len(whole)]
        mutation = mutated(seed_file.data, all_data, random)
        path = (
            folder / f"mutated{seed_file.suffix}"
            if reader != "index of a folder"
            else folder / seed_file.name
        )
        path.write_bytes(mutation.data)
        yield Case(f"{reader} {number}, {seed_file.name}", path, mutation.how)
        path.unlink(missing_ok=True)  # a journal without points is removed


def judged(reader: str, case: Case, limits: bool) -> tuple[str, Finding | None]:
    """What became of a case ("read" or "refused"), and what is wrong with that."""
    cost = Cost()
    try:
        with counted() as cost:
            refusal = file_readers.refused(reader, case.path)
    except Exception as error:
        return "wrong", Finding(
            case.name, place_of(error), f"{str(error)[:150]!r}: {', '.join(case.how)}"
        )
    if len(refusal.splitlines()) > 1 and not all(
        line.startswith("  ") for line in refusal.splitlines()[1:]
    ):
        return "wrong", Finding(case.name, "a refusal of several lines", refusal)
    if len(refusal) > LINE:
        return "wrong", Finding(case.name, "a refusal too long to read", refusal[:LINE])
    if limits and (excess := cost.excess()):
        return "wrong", Finding(case.name, "too dear", f"{excess}: {', '.join(case.how)}")
    return "refused" if refusal else "read", None


@pytest.mark.parametrize("few", [15, pytest.param(100, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("reader", READERS)
def test_a_mutated_file_is_read_or_refused(
    reader: str, few: int, tmp_path: Path, fuzz: Request
) -> None:
    outcomes, wrong = Counter[str](), list[Finding]()
    for case in cases(reader, fuzz.share(SHARES[reader], few), fuzz.seed, tmp_path):
        outcome, finding = judged(reader, case, fuzz.limits)
        outcomes[outcome] += 1
        if finding:
            wrong.append(finding.kept(case.path, fuzz.folder))
    if fuzz.limits:
        fuzz.say(f"{reader}: {dict(outcomes)}")
    assert not wrong, Finding.listed(wrong)


@pytest.mark.parametrize("reader", READERS)
def test_every_seed_is_read(reader: str, tmp_path: Path) -> None:
    """Else all its mutations would be refused for the same reason."""
    for seed in seeds(reader):
        path = tmp_path / seed.name
        path.write_bytes(seed.data)
        if reader == "model" and seed.name.startswith("ddp"):
            continue
        assert file_readers.refused(reader, path) == "", seed.name


def test_a_reader_that_breaks_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(path: Path) -> None:
        if b"1e400" in path.read_bytes():
            raise OverflowError("too large")
        raise InputError("no number of the right size")

    monkeypatch.setitem(READERS, "noise", broken)
    outcomes = [judged("noise", case, limits=False) for case in cases("noise", 200, 0, tmp_path)]
    assert {outcome for outcome, _ in outcomes} == {"wrong", "refused"}
    assert {finding.kind for _, finding in outcomes if finding} == {"OverflowError at "}


@pytest.mark.parametrize("name", ["deep", "shared"])
def test_many_nested_pickles_are_whole(name: str) -> None:
    """Damage would be refused before anything is shown of the value. Lists as keys are refused."""
    dump = next(seed.data for seed in seeds("job") if seed.data.startswith(PICKLE))
    files = [MUTATIONS[name](dump, Random(number)) for number in range(30)]
    values = [attempt(functools.partial(unpickled, file), "dump")[0] for file in files]
    assert sum(isinstance(value, dict) for value in values) >= 10


def test_a_seed_makes_the_same_files(tmp_path: Path) -> None:
    files = [
        [case.path.read_bytes() for case in cases("profile", 20, seed, tmp_path)]
        for seed in (1, 1, 2)
    ]
    assert files[0] == files[1] != files[2]
