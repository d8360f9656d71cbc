"""Factors on device times in steps, learnt from measured steps: `step_factors.csv`.

The level of a kind of device, for multiplications in so many bits, is the factor on products and
attention with which simulated steps take as long as measured ones. A family are the rows of a file
of a GPU and precision. Each family counts once: a level, or a spread, is the median over families.
The factor of a step is the one on all times of its device with which the step takes as long as the
measured one, at the level that other families tell. Rows are odd that are beyond three times
`step`; their spread and shares are those of all rows.

`launch` is the root mean square over GPUs of the logarithm of the factor on launches that all steps
of a GPU tell, if they tell it. Steps of one A100 node, nearly all of which launches bind, tell
nothing else. Their spread, `launched`, is 1.48 times the median error that one row calibrates, and
not learnt here. Models with experts only tell `experts`, how much further off each is than others
of the same GPU and precision. With --kernels, `links` is the root mean square of logarithms of the
times of large collectives, predicted without their family of GPUs, over NCCL's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import pandas as pd
import typer

from experiments import output
from experiments.models.accelerators import accelerator, power_factor
from experiments.models.device_times import STEP_FACTORS, level_in, level_name
from experiments.models.model_catalogue import find_transformer
from experiments.parallel.factor_fit import fit, spreads
from experiments.shipped_tables import rows_of
from experiments.studies.kernel_times import SOURCES, family_errors
from experiments.studies.measured_plans import MeasuredStep, published
from experiments.studies.measured_rows import Row, formatted, grouped
from experiments.studies.plan_accuracy import FOLDERS, PAPERS, files_in
from experiments.studies.step_predictions import factor_of, fit_rows
from topologies.topology import Floats

if TYPE_CHECKING:
    from pandas.core.groupby import SeriesGroupBy

NORMAL = 1.4826
"""The standard deviation of a normal distribution over its median absolute deviation."""
ODD = 3.0
"""From how many standard deviations on a row is odd."""
SINGLE = "a100_3d_single"
"""Steps on one node, nearly all of which launches bind."""
OPEN, TOLD = 10.0, 0.3
"""The spread of launches before steps tell of them, and the most that is left where they do."""
FAMILY = ["table", "kind"]
Factor = tuple[MeasuredStep, float]
"""A row and the logarithm of its factor."""
STEEPER = 1.25
"""The level at which each step is simulated beside 1. The time of a device is linear in it."""


def main(
    folders: Annotated[list[Path], FOLDERS],
    out: Annotated[Path | None, typer.Option(help="Write step_factors.csv anew here.")] = None,
    kernels: Annotated[Path | None, typer.Option(help="Measured kernels, for `links`.")] = None,
) -> str:
    """The levels and spreads of all rows, and their range as each family is left out: three minutes
    of CPU."""
    links = {} if kernels is None else {"links": links_of(kernels)}
    files, _ = files_in(folders)
    files |= {paper: [*published(paper)] for paper in PAPERS}
    every = [row for of in files.values() for row in of]
    rows = [row for row in every if row.table != SINGLE]
    dense = [row for row in rows if not find_transformer(row.model).shape.experts]
    needed = [(row, level) for row in dense if np.isfinite(level := level_of(row))]
    levels = levels_of(needed)
    away = {
        family: levels_of([each for each in needed if _family(each[0]) != family])
        for family in grouped(rows, _family)
    }
    rows = [_at(away[_family(row)], row) for row in rows]
    logs = [(row, float(np.log(factor_of(row)))) for row in rows]
    learnt = levels | spreads_of(logs) | links
    without = [
        away[family] | spreads_of([each for each in logs if _family(each[0]) != family])
        for family in grouped(logs, lambda each: _family(each[0]))
    ]
    if launches := launches_of([_at(levels, row) for row in every]):
        # The second digit is open: it differs by more as a GPU is left out.
        learnt["launch"] = round(_square_mean([*launches.values()]), 1)
        parts = ([launches[each] for each in launches if each != device] for device in launches)
        without += [{"launch": _square_mean(part)} for part in parts if part]
    records = [_record(row, learnt, without) for row in rows_of(STEP_FACTORS)]
    if out is not None:
        output.write(out, output.to_csv(records))
    return formatted(pd.DataFrame(records))


def _record(
    row: Row, learnt: Mapping[str, float], without: Sequence[Mapping[str, float]]
) -> output.Record:
    """A row of the file with what the steps tell of it, if they do."""
    name = row["name"]
    if name not in learnt:
        return {**row}
    values = [each[name] for each in without if name in each]
    source = row["source"]
    if values:
        source = f"learnt: {min(values):.3f} to {max(values):.3f} as each family is left out"
    return {"name": name, "value": round(learnt[name], 3), "source": source}


def _family(row: MeasuredStep) -> tuple[str, str]:
    return row.table, row.kind


def _at(levels: Mapping[str, float], row: MeasuredStep) -> MeasuredStep:
    return row._replace(level=level_in(levels, row.device, row.math))


def level_of(row: MeasuredStep) -> float:
    """The level with which a step takes as long as the measured one; not a number for a step so
    far off that no factor explains it."""
    usual, steeper = (1 / factor_of(row._replace(level=level)) for level in (1.0, STEEPER))
    if steeper == usual:
        return float("nan")
    return 1.0 + (STEEPER - 1.0) * (1.0 - usual) / (steeper - usual)


def levels_of(needed: Sequence[Factor]) -> dict[str, float]:
    """The level of each kind of device and number of bits by those of rows, and on boards with less
    power."""
    rows = [(level_name(row.device, row.math), *_family(row), level) for row, level in needed]
    for row, level in needed:
        limited, watts = power_factor(row.device), accelerator(row.device).power
        if limited > 1:
            name = f"{level_name(row.device, row.math)}_{watts:g}W"
            rows.append((name, *_family(row), level * limited))
    table = pd.DataFrame(rows, columns=["name", *FAMILY, "level"])
    medians = table.groupby(["name", *FAMILY], sort=False)["level"].median()
    levels = medians.groupby("name", sort=False).median()
    return {str(name): float(level) for name, level in levels.items()}


def launches_of(rows: Sequence[MeasuredStep]) -> dict[str, float]:
    """The logarithm of the factor on launches for each GPU whose steps tell it."""
    launches = {}
    for device, alike in grouped(rows, lambda row: row.device).items():
        fitted = fit(fit_rows(alike), prior=spreads()._replace(launch=OPEN))
        if fitted.sureness.launch < TOLD:
            launches[device] = float(np.log(fitted.factors.launch))
    return launches


def links_of(folder: Path) -> float:
    """How far off large collectives are that are predicted without their family of GPUs."""
    source = SOURCES["collectives"]
    groups = source.read(folder)
    errors = family_errors(source, groups)
    return _square_mean(np.concatenate([errors[key][source.large(groups[key])] for key in errors]))


def _square_mean(logs: Sequence[float] | Floats | pd.Series[float]) -> float:
    return float(np.sqrt(np.mean(np.square(logs))))


def spreads_of(logs: Sequence[Factor]) -> dict[str, float]:
    """The spreads by logarithms of factors, as :class:`experiments.parallel.factor_fit.Spreads`
    names them."""
    table = pd.DataFrame(
        [
            (*_family(row), row.model_name, bool(find_transformer(row.model).shape.experts), log)
            for row, log in logs
        ],
        columns=[*FAMILY, "model", "experts", "log"],
    )
    dense, experts = table[~table["experts"]], table[table["experts"]]
    by_cell = dense.groupby([*FAMILY, "model"])["log"]
    residuals = dense.assign(log=dense["log"] - by_cell.transform("median"))
    several = residuals.groupby(FAMILY)["log"].transform("size") > 2
    step = _typical(residuals[several & (residuals["log"] != 0)])
    far = residuals["log"][residuals["log"].abs() > ODD * step]
    cells = by_cell.median().reset_index()
    # A GPU and precision are the words of a kind.
    gpu = cells["kind"].str.split(" ").str[0]
    precision = _between(cells["log"].groupby([cells["table"], gpu, cells["model"]]))
    medians = cells.groupby(FAMILY)["log"].median()
    # A family is of a precision, too.
    family = _typical(medians.reset_index())
    further = (experts.groupby([*FAMILY, "model"])["log"].median() - medians).dropna()
    return {
        "device": max(family**2 - precision**2, 0.0) ** 0.5,
        "model": _between(cells.groupby(FAMILY)["log"]),
        "precision": precision,
        "experts": _typical(further.reset_index()),
        "step": step,
        "odd": _square_mean(far) if len(far) else 0.0,
        "odd_share": len(far) / (len(residuals) or 1),
    }


def _typical(logs: pd.DataFrame) -> float:
    """The median over families of the standard deviation about 0."""
    sizes = NORMAL * logs["log"].abs().groupby([logs[name] for name in FAMILY]).median()
    return float(sizes.median()) if len(sizes) else 0.0


def _between(groups: SeriesGroupBy[Any, Any]) -> float:
    """The median over groups of the standard deviation within."""
    spreads = groups.std().dropna()
    return float(spreads.median()) if len(spreads) else 0.0
