"""The errors of a profile as a table."""

from __future__ import annotations

from collections.abc import Mapping

from experiments import output
from experiments.profiles.profile_document import Error


def error_table(errors: Mapping[str, Error]) -> str:
    """Errors on what the fit has not seen and the share of points inside their 80% intervals, a row
    a protocol."""
    rows = [["unseen", "points", "model", "with discrepancy", "inside 80%", "one α, β a curve"]]
    for name, error in errors.items():
        shares = ((error.model, 1), (error.discrepancy, 1), (error.inside, 0), (error.baseline, 1))
        cells = ("-" if value is None else f"{value:.{digits}%}" for value, digits in shares)
        rows.append([name, str(error.points), *cells])
    return output.align(rows)
