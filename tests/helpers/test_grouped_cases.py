"""Cases in one test: all run, and each failure names its case."""

import pytest

from grouped_cases import each_case


def test_all_cases_run_with_all_fixtures() -> None:
    seen = []

    @each_case("letter", "ab")
    @each_case(("number", "double"), [(1, 2), (2, 4)])
    def test(letter: str, number: int, double: int, fixture: str) -> None:
        assert double == 2 * number
        seen.append((letter, number, fixture))

    test(fixture="x")
    assert seen == [("a", 1, "x"), ("a", 2, "x"), ("b", 1, "x"), ("b", 2, "x")]


def test_every_failure_names_its_case() -> None:
    @each_case("number", range(4))
    def test(number: int) -> None:
        assert number != 1
        with pytest.raises(ZeroDivisionError):
            1 / (number - 2)  # 2 alone raises it
        assert number != 2

    with pytest.raises(BaseExceptionGroup, match="4 of 4 cases fail") as group:
        test()
    notes = [error.__notes__ for error in group.value.exceptions]
    assert notes == [[f"case: number={number}"] for number in range(4)]
