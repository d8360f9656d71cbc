"""Files of populations: what ships, what is written, and what is refused."""

import pytest

from experiments.calibration.population.population import Member, Population, Spread
from experiments.calibration.population.population_file import find, parse
from experiments.studies.populations import dumps
from grouped_cases import each_case
from topologies.errors import InputError

GOOD = """library: NCCL
made: by hand
machines: [one, two]
error: 0.2
parameters:
  launch: {unit: s, start: 1.0e-5, mean: 2.0e-5, spread: 0.5, machines: 2}
  network α by nodes: {unit: power, start: 0.0, mean: -0.1, spread: 0.2, machines: 1}
intervals: {machine: 0.4, parameters: 0.9}
correlations:
  network α by nodes: [0.3]
"""


def test_a_population_is_read_back_as_it_was_written() -> None:
    population = parse(GOOD, "x.yaml")
    again = parse(dumps(population), "y.yaml")
    assert again.members.keys() == population.members.keys()
    for name, member in again.members.items():
        assert member.unit == population.members[name].unit
        assert member[1:] == pytest.approx(population.members[name][1:], abs=1e-3)
    assert again.correlations.tolist() == [[1, 0.3], [0.3, 1]]
    assert again.intervals == Spread(0.4, 0.9)


def test_a_file_of_an_earlier_version_has_no_intervals() -> None:
    old = parse(GOOD[: GOOD.index("intervals")], "x.yaml")
    assert old.intervals is None
    assert old.correlations.tolist() == [[1, 0], [0, 1]]
    assert "intervals" not in dumps(old)


LEVEL = """transports:
  verbs:
    machines: [one]
    parameters:
      launch: {unit: s, start: 1.0e-5, mean: 3.0e-5, spread: 0.4, machines: 1}
"""


def test_a_transport_is_read_back_with_the_rules_of_all_machines() -> None:
    again = parse(dumps(parse(GOOD + LEVEL, "x.yaml")), "y.yaml")
    verbs = again.over("verbs")
    assert verbs.machines == ("one",)
    assert verbs.members["launch"].mean == pytest.approx(-10.414, abs=1e-3)
    assert (verbs.error, verbs.intervals) == (again.error, again.intervals)
    assert again.over("TCP").members == again.members


def test_a_mistake_of_a_transport_is_named_with_its_line() -> None:
    with pytest.raises(InputError, match=r"^x.yaml line 15, .*verbs.*launch: .*-1: values in s"):
        parse(GOOD + LEVEL.replace("mean: 3.0e-5", "mean: -1"), "x.yaml")


def test_values_are_as_a_fit_counts_them() -> None:
    launch = parse(GOOD, "x.yaml").members["launch"]
    assert (launch.start, launch.mean) == pytest.approx((-11.513, -10.820), abs=1e-3)
    assert parse(GOOD, "x.yaml").spreads == {"launch": 0.5, "network α by nodes": 0.2}


@each_case(
    ("old", "new", "message"),
    [
        (
            "spread: 0.5",
            "spread: 0",
            r"^x.yaml line 6, .*launch.*spread: 0: input should be greater",
        ),
        ("mean: 2.0e-5", "mean: -1", r"^x.yaml line 6, .*launch: .*-1: values in s are above 0"),
        ("unit: s,", "unit: m,", r"^x.yaml line 6, .*unit"),
        ("machines: [one, two]", "machine: one", r"^x.yaml .*machine"),
        ("library: NCCL\n", "", r"^x.yaml.*library: is missing"),
        ("nodes: [0.3]", "nodes: [1.3]", r"^x.yaml line 10, .*1.3: input should be less"),
        ("nodes: [0.3]", "nodes: []", r"^x.yaml line 10, .*expected .* the 1 before it"),
        ("  network α by nodes: [0.3]", "  other: []", r"^x.yaml .*other: no parameter of the"),
        ("machine: 0.4", "machine: -1", r"^x.yaml line 8, .*-1"),
        (GOOD, "[]", r"^x.yaml.*not a mapping"),
    ],
)
def test_mistakes_are_named_with_their_line(old: str, new: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse(GOOD.replace(old, new), "x.yaml")


@pytest.mark.parametrize("library", ["NCCL", "MPI"])
def test_populations_ship(library: str) -> None:
    population = find(library)
    assert isinstance(population, Population)
    assert len(population.machines) >= 5
    assert all(isinstance(member, Member) for member in population.members.values())
    assert "launch" in population.members


def test_a_library_that_nobody_measured_has_no_population() -> None:
    assert find("gloo") is None
