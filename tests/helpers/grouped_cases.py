"""Many small cases of a law in one test."""

from collections.abc import Callable, Iterable
from functools import wraps
from inspect import signature
from typing import Any

import pytest

FAILURES = (Exception, BaseExceptionGroup, pytest.fail.Exception)
"""Errors of a case; what `pytest.raises` misses is no Exception."""


def each_case(
    names: str | tuple[str, ...], cases: Iterable[Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Like `pytest.mark.parametrize`, with all cases in one test: for cases that take less time
    than pytest takes for a test of their own.

    All cases run. The failures are raised together, each with its case.

    >>> @each_case("number", [1, 2])
    ... def test_numbers_are_odd(number: int) -> None:
    ...     assert number % 2, "even"
    >>> try:
    ...     test_numbers_are_odd()
    ... except ExceptionGroup as group:
    ...     print(group.message, group.exceptions[0].__notes__)
    1 of 2 cases fail ['case: number=2']
    """
    keys = (names,) if isinstance(names, str) else names
    rows = [dict(zip(keys, (case,) if keys == (names,) else case, strict=True)) for case in cases]

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @wraps(test)
        def grouped(**fixtures: Any) -> None:
            failures = [error for row in rows if (error := _failure(test, row, fixtures))]
            if failures:
                raise BaseExceptionGroup(f"{len(failures)} of {len(rows)} cases fail", failures)

        shape = signature(test)
        others = [value for key, value in shape.parameters.items() if key not in keys]
        grouped.__dict__["__signature__"] = shape.replace(parameters=others)
        return grouped

    return decorate


def _failure(
    test: Callable[..., None], row: dict[str, Any], fixtures: dict[str, Any]
) -> BaseException | None:
    try:
        test(**row, **fixtures)
    except FAILURES as error:
        error.add_note("case: " + ", ".join(f"{key}={value!r:.200}" for key, value in row.items()))
        return error
    return None
