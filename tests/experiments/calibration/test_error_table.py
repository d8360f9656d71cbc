"""The errors of a profile in its story."""

from experiments.answer_blocks import Table
from experiments.pages.reports.result import Result
from experiments.pages.reports.validation_story import calibrated
from experiments.profiles.profile_document import Error

SURE = Error(points=54, model=0.121, discrepancy=0.114, baseline=0.271, inside=0.76)
OLD = Error(points=54, model=0.121, discrepancy=None, baseline=0.271)


def test_a_story_says_how_many_points_are_inside() -> None:
    (cells,) = rows_of(SURE)
    assert cells["inside 80%"] == "76%"
    (cells,) = rows_of(OLD)
    assert "inside 80%" not in cells


def rows_of(error: Error) -> list[dict[str, str]]:
    """The rows of the table of held-out errors, by heading."""
    profile = {
        "profile": "mine",
        "machine": "star",
        "library": "NCCL",
        "estimates": {},
        "sources": [],
        "errors": {"sizes": error.model_dump()},
    }
    blocks = calibrated(Result("calibrate", profile)).blocks
    (table,) = (block for block in blocks if isinstance(block, Table) and "seen" in block.title)
    headings = [heading.text for heading in table.headings]
    return [dict(zip(headings, (cell.text for cell in row), strict=True)) for row in table.rows]
