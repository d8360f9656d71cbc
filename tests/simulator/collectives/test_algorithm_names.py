"""Algorithms by name, and what a name that is none is told."""

from grouped_cases import each_case
from refusals import refusal
from simulator.collectives import algorithms, find, of_collective


@each_case("name", sorted({a.collective.name for a in algorithms().values()} - {*algorithms()}))
def test_a_collective_lists_its_algorithms(name: str) -> None:
    listed = [key for key, algorithm in algorithms().items() if algorithm.collective.name == name]
    assert (
        refusal(find, name)
        == f"{name!r} is a collective and no algorithm: choose {_either(listed)}"
    )


def _either(names: list[str]) -> str:
    return f"one of {', '.join(names)}" if len(names) > 1 else names[0]


@each_case("name", ["allreduce", "all-reduce", "AllReduce", "ALL_REDUCE"])
def test_other_spellings_of_a_collective_list_its_algorithms(name: str) -> None:
    assert refusal(find, name).startswith(
        f"{name!r} is a collective and no algorithm: choose one of ring, rings,"
    )


def test_a_misspelt_algorithm_gets_the_nearest_name() -> None:
    assert (
        refusal(find, "rnig")
        == "no algorithm 'rnig': did you mean 'ring'? (simctl list algos lists them)"
    )


def test_a_name_like_none_leads_to_the_list() -> None:
    assert refusal(find, "???") == "no algorithm '???': simctl list algos lists them"


def test_a_collective_has_algorithms_in_any_spelling() -> None:
    assert of_collective("All-to-All") == of_collective("all_to_all")
    assert find("pairwise") in of_collective("alltoall")
    assert refusal(of_collective, "brodcast").startswith(
        "no collective 'brodcast': did you mean 'broadcast'? (there are all_reduce,"
    )
