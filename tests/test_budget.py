"""The house stays small: nodes and classes of each package have a budget, and names are used
once."""

import pytest

from tests.budget import WHOLE, budget, class_names, sizes
from tests.style_numbers import PACKAGES, files

SLACK = 1.01
"""A budget is lowered with the work: it is no more than so far above what is there."""
NODES_A_STATEMENT = 15.48
"""Fewer but denser lines are no gain."""


@pytest.fixture(scope="module")
def sources() -> dict[str, str]:
    return files(PACKAGES)


def test_no_package_exceeds_its_budget(sources: dict[str, str]) -> None:
    allowed = budget()
    assert [
        f"{place}: {counts[name]} {name}, {allowed[place][name]} allowed"
        for place, counts in sizes(sources).items()
        for name in ("nodes", "classes")
        if counts[name] > allowed[place][name]
    ] == []


def test_the_budget_is_lowered_with_the_work(sources: dict[str, str]) -> None:
    counts, allowed = sizes(sources), budget()
    assert allowed.keys() == counts.keys()
    for name in ("nodes", "classes"):
        assert allowed[WHOLE][name] <= SLACK * counts[WHOLE][name]


def test_lines_are_not_dense(sources: dict[str, str]) -> None:
    counts = sizes(sources)[WHOLE]
    assert counts["within"] <= NODES_A_STATEMENT * counts["statements"]


def test_nodes_classes_and_statements_are_counted_without_docstrings() -> None:
    counts = sizes({"simulator/x.py": "class A:\n    '''Text.'''\n    a = 1\n"})
    assert counts["simulator"] == {"nodes": 6, "classes": 1, "statements": 2, "within": 6}


def test_a_class_name_is_of_one_thing(sources: dict[str, str]) -> None:
    names = class_names(sources)
    assert {name for name, places in names.items() if len(places) > 2} == set()
    assert {name for name, places in names.items() if len({*places}) < len(places)} == set()
