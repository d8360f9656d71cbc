"""Times of kernels that are learnt from measured ones, and their errors at shapes left out.

With `--score` nothing is learnt: the tables that ship are compared with the kernels of the folder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import typer

from experiments.models.kernel_times.attention import ATTENTION
from experiments.models.kernel_times.casts import CASTS
from experiments.models.kernel_times.exchange import EXCHANGE
from experiments.models.kernel_times.grouped_products import GROUPED_PRODUCTS
from experiments.models.kernel_times.kernel_model import Chip, KernelModel, Key, Kind, write
from experiments.models.kernel_times.lookup import ALL, model_of
from experiments.models.kernel_times.products import PRODUCTS
from experiments.studies import exchange_rows, kernel_rows
from experiments.studies.kernel_fit import (
    Groups,
    Measured,
    Smoothness,
    learn,
    left_out,
    mean_model,
    spread_of,
)
from experiments.studies.measured_rows import aligned, grouped
from topologies.topology import Flags, Floats

LARGE = 1024
"""The products of training have such sides, and larger ones."""
FAMILIES = [("a100",), ("l40s",), ("h100", "h200"), ("b200", "gb200")]
"""Devices that are alike."""


Errors = Mapping[Key, Floats]
"""The logarithm of predicted over measured time of each kernel."""
Learnt = Mapping[Key, KernelModel]


class Source(NamedTuple):
    """A kind of kernel and its measured ones."""

    kind: Kind
    read: Callable[[Path], Groups]
    smoothness: Smoothness
    large: Callable[[Measured], Flags]
    """Whether each kernel is as large as those of training."""
    families: bool = True
    """Whether devices of several families were measured with most engines."""
    others: Mapping[str, Callable[[Path, Learnt], tuple[Groups, Errors]]] = {}
    """What else is left out: the kernels, and the errors there."""


def _large_products(measured: Measured) -> Flags:
    return np.asarray(np.min([measured.sizes[name] for name in "mnk"], axis=0) >= LARGE)


def _lengths(folder: Path, learnt: Learnt) -> tuple[Groups, Errors]:
    groups = exchange_rows.attention(folder, exchange_rows.LENGTHS)
    return groups, left_out(ATTENTION, groups, SMOOTH_ATTENTION, learnt)


def _more_ranks(times: int, folder: Path, learnt: Learnt) -> tuple[Groups, Errors]:
    """The most ranks, by models of so many times fewer, and of fewer than these."""
    most, errors = dict[Key, tuple[Chip, Measured]](), dict[Key, Floats]()
    for key, (chip, measured) in exchange_rows.exchanges(folder).items():
        ranks = measured.sizes["ranks"]
        few, test = measured.at(ranks <= ranks.max() / times), measured.at(ranks == ranks.max())
        if len(few.seconds):
            model = learn(EXCHANGE, {key: (chip, few)}, SMOOTH_EXCHANGE, learnt)[key]
            most[key] = chip, test
            errors[key] = np.log(model.seconds(test.sizes) / test.seconds)
    return most, errors


SMOOTH_ATTENTION = Smoothness(0.3, (3.0, 2.0, 1.0, 4.0, 1.0))
SMOOTH_EXCHANGE = Smoothness(0.15, (3.0, 2.5, 1.5, 2.0), 6.0)
"""The first kernels of runs on 16 ranks take 4 times as long as those after them. With a limit of 6
they leave no trace in the grid, and errors at shapes left out stay as they are."""
SOURCES = {
    "products": Source(
        PRODUCTS, kernel_rows.products, Smoothness(0.12, (2.5, 3.0, 3.0), 2.5), _large_products
    ),
    "grouped products": Source(
        GROUPED_PRODUCTS,
        kernel_rows.grouped_products,
        Smoothness(0.15, (3.0, 3.0, 4.0), 2.0),
        lambda measured: measured.sizes["tokens"] >= LARGE,
    ),
    "attention, forward": Source(
        ATTENTION,
        exchange_rows.attention,
        SMOOTH_ATTENTION,
        lambda measured: measured.sizes["queries"] >= LARGE,
        others={"lengths and batches left out": _lengths},
    ),
    "exchanges of experts": Source(
        EXCHANGE,
        exchange_rows.exchanges,
        SMOOTH_EXCHANGE,
        lambda measured: measured.sizes["tokens"] >= LARGE,
        families=False,
        others={f"{n} times the ranks": partial(_more_ranks, n) for n in (2, 4)},
    ),
    "casts": Source(
        CASTS,
        exchange_rows.casts,
        Smoothness(0.15, (2.0, 3.0)),
        lambda measured: measured.sizes["rows"] * measured.sizes["columns"] >= LARGE**2,
    ),
}
"""By the name of the kind."""


def main(
    folder: Path,
    score: Annotated[bool, typer.Option(help="Compare the tables that ship.")] = False,
) -> str:
    """Learn the tables of all kinds from a folder of measured kernels: ten minutes."""
    tables = shipped_tables if score else learnt_tables
    return "\n\n".join(
        f"{title}\n\n{aligned(table(source, groups, errors))}"
        for name, source in SOURCES.items()
        for title, groups, errors in tables(name, source, folder)
    )


def shipped_tables(name: str, source: Source, folder: Path) -> list[tuple[str, Groups, Errors]]:
    """The errors of the table that ships."""
    groups = source.read(folder)
    errors = {
        key: np.log(model_of(source.kind, *key).seconds(measured.sizes) / measured.seconds)
        for key, (_, measured) in groups.items()
    }
    return [(f"{name}, as shipped", groups, errors)]


def learnt_tables(name: str, source: Source, folder: Path) -> list[tuple[str, Groups, Errors]]:
    """Learns the table of a kind and writes it. Returns the errors of what is left out."""
    groups = source.read(folder)
    learnt = learn(source.kind, groups, source.smoothness)
    shapes: Errors = left_out(source.kind, groups, source.smoothness, learnt)
    away = shapes
    tables = [(f"{name}, shapes left out", groups, shapes)]
    if source.families:
        away = family_errors(source, groups, learnt)
        tables.append((f"{name}, families of devices left out", groups, away))
    write(source.kind, lines(learnt, shapes, away))
    others = source.others.items()
    return tables + [(f"{name}, {title}", *judge(folder, learnt)) for title, judge in others]


def family_errors(source: Source, groups: Groups, learnt: Mapping[Key, KernelModel]) -> Errors:
    """By the mean of other families of devices, and the specification of the device."""
    errors = {}
    for family in FAMILIES:
        others = {key: group for key, group in groups.items() if key.device not in family}
        means = family_means(learn(source.kind, others, source.smoothness, learnt))
        for key, (chip, measured) in groups.items():
            if key.device in family:
                model = replace(nearest(means, key), chip=chip)
                errors[key] = np.log(model.seconds(measured.sizes) / measured.seconds)
    return errors


def family_means(learnt: Mapping[Key, KernelModel]) -> dict[Key, KernelModel]:
    """The mean over families of each precision and engine."""
    means = {}
    for (precision, engine), keys in grouped(learnt, lambda key: key[1:]).items():
        members = [[learnt[key] for key in keys if key.device in family] for family in FAMILIES]
        means[Key(ALL, precision, engine)] = mean_model(
            [mean_model(each) for each in members if each]
        )
    return means


def nearest(means: Mapping[Key, KernelModel], key: Key) -> KernelModel:
    """The mean for an engine and precision, or for the nearest that there is."""
    return min(
        means.items(),
        key=lambda each: (
            each[0].precision != key.precision,
            each[0].precision == "bf16",
            each[0].engine != key.engine,
        ),
    )[1]


def lines(
    learnt: Mapping[Key, KernelModel], errors: Errors, away: Errors
) -> dict[Key, KernelModel]:
    """The lines of a table."""
    means = family_means(learnt)
    table = {key: replace(model, spread=spread_of(errors[key])) for key, model in learnt.items()}
    for mean in means:
        alike = [each for key, each in away.items() if key[1:] == mean[1:]]
        table[mean] = replace(means[mean], spread=spread_of(np.concatenate(alike)))
    return table


def table(source: Source, groups: Groups, errors: Errors) -> dict[str, list[str]]:
    """The errors of each device, precision and engine, and their medians over all."""
    figures = np.array([_figures(source, groups[key][1], each) for key, each in errors.items()])
    rows = [[*key, str(len(each))] for key, each in errors.items()]
    rows += [[heading, "", "", ""] for heading in ("median", "worst")]
    summary = [np.median(np.abs(figures), axis=0), np.abs(figures).max(axis=0)]
    texts = [
        [*row, *(f"{figure:.1%}" for figure in each)]
        for row, each in zip(rows, [*figures, *summary], strict=True)
    ]
    names = ["device", "precision", "engine", "kernels", "error", "p90", "large ones", "their bias"]
    return dict(zip(names, map(list, zip(*texts, strict=True)), strict=True))


def _figures(source: Source, measured: Measured, errors: Floats) -> Floats:
    relative, large = np.abs(np.expm1(errors)), source.large(measured)
    seconds = measured.seconds[large]
    bias = seconds @ np.exp(errors[large]) / seconds.sum() - 1 if large.any() else np.nan
    some = np.median(relative[large]) if large.any() else np.nan
    return np.array([np.median(relative), np.quantile(relative, 0.9), some, bias])
