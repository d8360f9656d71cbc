"""Templates take values in their units, and name those that are not there."""

import pytest

from experiments.templates import fill
from grouped_cases import each_case
from refusals import refusal


@each_case(
    ("template", "text"),
    [
        ("{plan}: {step_s:s}", "dp=8: 500ms"),
        ("{held:B} in {ranks}", "2GB in 4"),
        ("{part:share} of {rate:,.0f}", "12.5% of 1,234"),
        ("no value", "no value"),
    ],
)
def test_values_are_in_their_units(template: str, text: str) -> None:
    record = {"plan": "dp=8", "step_s": 0.5, "held": 2e9, "ranks": 4, "part": 0.125, "rate": 1234}
    assert fill(template, record) == text


@pytest.mark.parametrize("value", ["x", [1.0], True, {}])
@pytest.mark.parametrize("unit", ["s", "B", "share", ".1f"])
def test_what_is_no_number_is_named(value: object, unit: str) -> None:
    assert refusal(fill, f"{{mfu:{unit}}}", {"mfu": value}) == "no number 'mfu' in the result"


def test_what_is_missing_is_named() -> None:
    assert refusal(fill, "{mfu:s}", {"mfu": None}) == "no 'mfu' in the result"
