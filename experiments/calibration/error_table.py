"""The errors of a profile as a table."""

from __future__ import annotations

from collections.abc import Mapping

from experiments import output
from experiments.profiles.profile_document import Error


def error_table(errors: Mapping[str, Error]) -> str:
    """Errors on what the fit has not seen, a row a protocol."""
    rows = [["unseen", "points", "model", "with discrepancy", "one α, β a curve"]]
    for name, one in errors.items():
        cells = (
            "-" if value is None else f"{value:.1%}"
            for value in (one.model, one.discrepancy, one.baseline)
        )
        rows.append([name, str(one.points), *cells])
    return output.align(rows)
