"""Spreads of factors on device times, learnt from measured steps: `factor_spreads.csv`.

The factor of a step is the one on the times of its device with which the simulated step takes as
long as the measured one. A family are the rows of a file of a GPU and precision. Each family counts
once: a spread is the median over families.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np

from experiments.studies.measured_plans import MeasuredStep
from experiments.studies.measured_rows import aligned, grouped
from experiments.studies.plan_accuracy import FOLDERS, factor_of, files_in, fills

NORMAL = 1.4826
"""The standard deviation of a normal distribution over its median absolute deviation."""
ODD = 3.0
"""From how many standard deviations on a row is odd."""
Factor = tuple[MeasuredStep, float]


def main(folders: Annotated[list[Path], FOLDERS]) -> str:
    """The spreads of all rows, and their range as each family is left out."""
    files, _ = files_in(folders)
    # Launches bind small models on single nodes.
    rows = [row for name, of in files.items() if name != "a100_3d_single" for row in of]
    logs = [(row, float(np.log(factor_of(row)))) for row in rows]
    families = grouped(logs, lambda each: _family(each[0]))
    without = [
        spreads_of([each for each in logs if _family(each[0]) != family]) for family in families
    ]
    learnt = spreads_of(logs)
    return aligned(
        {
            "spread": [*learnt],
            "value": [f"{value:.3f}" for value in learnt.values()],
            "least without a family": [f"{min(w[name] for w in without):.3f}" for name in learnt],
            "most": [f"{max(w[name] for w in without):.3f}" for name in learnt],
        }
    )


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
    by_precision = {
        (table, kind.partition(" ")[0], model): [
            log
            for (file, kinds, name), log in cells.items()
            if (file, kinds.partition(" ")[0], name) == (table, kind.partition(" ")[0], model)
        ]
        for table, kind, model in cells
    }
    by_family = grouped(cells.items(), lambda each: each[0][:2])
    precision = _between(by_precision.values())
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
