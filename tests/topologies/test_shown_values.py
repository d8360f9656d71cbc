"""Values of files in messages: short, whatever they are."""

from __future__ import annotations

from grouped_cases import each_case
from topologies.errors import as_text, shown
from topologies.readers.mistakes import spelling


@each_case(
    ("value", "text"),
    [
        ("ring", "'ring'"),
        ("x" * 60, f"'{'x' * 59}..."),
        ("x" * 10**6, f"'{'x' * 59}..."),
        (b"x", "b'x'"),
        (True, "true"),
        (-3, "-3"),
        (10**5000, "a number of more than 60 digits"),
        (1.5, "1.5"),
        (([1],), "a list"),
        ({1: 2}, "a mapping"),
    ],
)
def test_a_value_is_shown_shortly(value: object, text: str) -> None:
    assert shown(value) == text
    assert as_text(value) == (value if isinstance(value, str) else text)


def test_a_deep_place_is_cut() -> None:
    assert spelling(("links", *[0] * 16)) == f"links{'[0]' * 15}..."
