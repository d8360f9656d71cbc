"""Spreads of factors on device times, learnt from measured steps: `factor_spreads.csv`.

The factor of a step is the one on the times of its device with which the simulated step takes as
long as the measured one. A family are the rows of a file of a GPU and precision. Each family counts
once: a spread is the median over families. Rows are odd that are beyond three times `step`; their
spread and shares are those of all rows.

Steps of one A100 node, which launches bind, are left out. The spread of these, `launched`, is 1.48
times the median error that one row calibrates.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from experiments import output
from experiments.parallel.factor_fit import SPREADS
from experiments.studies.measured_plans import MeasuredStep
from experiments.studies.measured_rows import Row, aligned, grouped, rows_of
from experiments.studies.plan_accuracy import FOLDERS, factor_of, files_in, fills

NORMAL = 1.4826
"""The standard deviation of a normal distribution over its median absolute deviation."""
ODD = 3.0
"""From how many standard deviations on a row is odd."""
Factor = tuple[MeasuredStep, float]


def main(
    folders: Annotated[list[Path], FOLDERS],
    out: Annotated[Path | None, typer.Option(help="Write factor_spreads.csv anew here.")] = None,
) -> str:
    """The spreads of all rows, and their range as each family is left out."""
    files, _ = files_in(folders)
    rows = [row for name, of in files.items() if name != "a100_3d_single" for row in of]
    logs = [(row, float(np.log(factor_of(row)))) for row in rows]
    families = grouped(logs, lambda each: _family(each[0]))
    without = [
        spreads_of([each for each in logs if _family(each[0]) != family]) for family in families
    ]
    records = [_record(row, spreads_of(logs), without) for row in rows_of(SPREADS)]
    if out is not None:
        output.write(out, output.to_csv(records))
    return aligned({key: [str(record[key]) for record in records] for key in records[0]})


def _record(
    row: Row, learnt: Mapping[str, float], without: Sequence[Mapping[str, float]]
) -> output.Record:
    """A row of the file with what the steps tell of its spread, if they do."""
    name = row["spread"]
    if name not in learnt:
        return {**row}
    values = [each[name] for each in without]
    source = f"learnt: {min(values):.3f} to {max(values):.3f} as each family is left out"
    return {"spread": name, "value": round(learnt[name], 3), "source": source}


def _family(row: MeasuredStep) -> tuple[str, str]:
    return row.table, row.kind


def spreads_of(logs: Sequence[Factor]) -> dict[str, float]:
    """The spreads by logarithms of factors, as :class:`experiments.parallel.factor_fit.Spreads`
    names them."""
    cells = {
        key: float(np.median([log for _, log in of]))
        for key, of in grouped(logs, lambda each: (*_family(each[0]), each[0].model_name)).items()
    }
    left = [(row, log - cells[*_family(row), row.model_name]) for row, log in logs]
    counts = {key: len(of) for key, of in grouped(logs, lambda each: _family(each[0])).items()}
    alike = [each for each in left if counts[_family(each[0])] > 2 and each[1]]
    step = _typical((_family(row), log) for row, log in alike)
    odd = {
        full: [abs(log) > ODD * step for row, log in left if fills(row) == full]
        for full in (False, True)
    }
    far = [log for _, log in left if abs(log) > ODD * step]
    # A GPU and precision are the words of a kind.
    by_precision = grouped(
        cells.items(), lambda cell: (cell[0][0], cell[0][1].partition(" ")[0], cell[0][2])
    )
    by_family = grouped(cells.items(), lambda each: each[0][:2])
    precision = _between([log for _, log in of] for of in by_precision.values())
    # A family is of a precision, too.
    family = _typical(
        (family, float(np.median([log for _, log in of]))) for family, of in by_family.items()
    )
    return {
        "device": max(family**2 - precision**2, 0.0) ** 0.5,
        "model": _between([log for _, log in of] for of in by_family.values()),
        "precision": precision,
        "step": step,
        "odd": float(np.sqrt(np.mean(np.square(far)))) if far else 0.0,
        "odd_share": float(np.mean(odd[False])) if odd[False] else 0.0,
        "full_odd_share": float(np.mean(odd[True])) if odd[True] else 0.0,
    }


def _typical(logs: Iterable[tuple[Hashable, float]]) -> float:
    """The median over families of the standard deviation about 0."""
    families = grouped(logs, lambda each: each[0]).values()
    sizes = [NORMAL * np.median(np.abs([log for _, log in family])) for family in families]
    return float(np.median(sizes)) if sizes else 0.0


def _between(groups: Iterable[Sequence[float]]) -> float:
    """The median over groups of the standard deviation within."""
    spreads = [float(np.std(group, ddof=1)) for group in groups if len(group) > 1]
    return float(np.median(spreads)) if spreads else 0.0
