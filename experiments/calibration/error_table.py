"""The errors of a profile as a table."""

from __future__ import annotations

from collections.abc import Mapping

from experiments import output
from experiments.profiles.profile_document import Error


def error_table(errors: Mapping[str, Error]) -> str:
    """Errors on what the fit has not seen, a row a protocol."""
    rows = [["unseen", "points", "model", "with discrepancy", "one α, β a curve"]]
    for name, error in errors.items():
        cells = (
            "-" if value is None else f"{value:.1%}"
            for value in (error.model, error.discrepancy, error.baseline)
        )
        rows.append([name, str(error.points), *cells])
    return output.align(rows)
