"""The errors of a profile, in its table and on its page."""

import pytest

from experiments.calibration.standing import error_table
from experiments.pages.page import Table
from experiments.pages.reports.profile_story import calibrated
from experiments.pages.reports.result import Result
from experiments.profiles.profile_document import Error

SURE = Error(points=54, model=0.121, discrepancy=0.114, baseline=0.271, inside=0.76)
OLD = Error(points=54, model=0.121, discrepancy=None, baseline=0.271)


@pytest.mark.parametrize(("error", "inside"), [(SURE, "76%"), (OLD, "-")])
def test_a_table_says_how_many_points_are_inside(error: Error, inside: str) -> None:
    head, row = error_table({"sizes": error}).splitlines()
    assert row[: head.index("inside 80%") + len("inside 80%")].split()[-1] == inside


def test_a_page_says_how_many_points_are_inside() -> None:
    (cells,) = page_rows(SURE)
    assert cells["inside 80% intervals"] == "76%"
    (cells,) = page_rows(OLD)
    assert "inside 80% intervals" not in cells


def page_rows(error: Error) -> list[dict[str, str]]:
    """The rows of the table of held-out errors, by heading."""
    profile = {
        "profile": "mine",
        "machine": "star",
        "library": "NCCL",
        "estimates": {},
        "errors": {"sizes": error.model_dump()},
    }
    blocks = calibrated(Result("profile", profile, {})).blocks
    (table,) = (block for block in blocks if isinstance(block, Table) and "seen" in block.title)
    headings = [heading.text for heading in table.headings]
    return [dict(zip(headings, (cell.text for cell in row), strict=True)) for row in table.rows]
