"""Times of kernels that are learnt from measured ones, and their errors at shapes left out.

With `--score` nothing is learnt: the tables that ship are compared with the kernels of the folder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import pandas as pd
import typer

from experiments.models.kernel_times.attention import ATTENTION, DECODE_ATTENTION, LATENT_DECODES
from experiments.models.kernel_times.casts import CASTS
from experiments.models.kernel_times.exchange import EXCHANGE
from experiments.models.kernel_times.grouped_products import GROUPED_PRODUCTS, UNPACKED_PRODUCTS
from experiments.models.kernel_times.kernel_model import EIGHTY, KernelModel, Key, Kind, write
from experiments.models.kernel_times.lookup import ALL, EAGER, WIDTHS, model_of
from experiments.models.kernel_times.nccl_calls import COLLECTIVES, ENGINE_CALLS
from experiments.models.kernel_times.products import OUTPUT, PRODUCTS
from experiments.studies import kernel_rows
from experiments.studies.kernel_fit import (
    Groups,
    Measured,
    Smoothness,
    learn,
    left_out,
    shared_fit,
    spread_of,
)
from experiments.studies.measured_rows import formatted, grouped
from topologies.topology import Flags, Floats

LARGE = 1024
"""The products of training have such sides, and larger ones."""
LARGE_COLLECTIVE = 2.0**24
"""The collectives of training have so many bytes, and more."""
FAMILIES = [("a100",), ("l40s",), ("h100", "h200"), ("b200", "gb200")]
"""Devices that are alike."""


FORMATS = {
    **dict.fromkeys(Key._fields, "{}"),
    "kernels": "{:.0f}",
    **dict.fromkeys(("error", "p90", "large ones", "their bias"), "{:.1%}"),
}
"""The columns of a table of errors."""
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


def _at_least(name: str, least: float) -> Callable[[Measured], Flags]:
    """Whether each kernel has a size of so much or more."""
    return lambda measured: np.asarray(measured.sizes[name] >= least)


def _large_products(measured: Measured) -> Flags:
    return np.asarray(np.min([measured.sizes[name] for name in "mnk"], axis=0) >= LARGE)


def _lengths(folder: Path, learnt: Learnt) -> tuple[Groups, Errors]:
    groups = kernel_rows.attention(folder, kernel_rows.LENGTHS)
    return groups, left_out(ATTENTION, groups, SMOOTH_ATTENTION, learnt)


def _more_ranks(times: int, folder: Path, learnt: Learnt) -> tuple[Groups, Errors]:
    """The most ranks, by models of so many times fewer, and of fewer than these."""
    most, errors = dict[Key, Measured](), dict[Key, Floats]()
    for key, measured in kernel_rows.exchanges(folder).items():
        ranks = measured.sizes["ranks"]
        few, test = measured.at(ranks <= ranks.max() / times), measured.at(ranks == ranks.max())
        if len(few.seconds):
            model = learn(EXCHANGE, {key: few}, SMOOTH_EXCHANGE, learnt)[key]
            most[key] = test
            errors[key] = np.log(model.seconds(test.sizes) / test.seconds)
    return most, errors


SMOOTH_ATTENTION = Smoothness(0.3, (3.0, 2.0, 1.0, 4.0, 1.0))
SMOOTH_DECODE = Smoothness(0.3, (3.0, 3.0, 1.0, 3.0))
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
        _at_least("tokens", LARGE),
    ),
    "grouped products of weights in 4 bits": Source(
        UNPACKED_PRODUCTS,
        partial(kernel_rows.grouped_products, precisions=kernel_rows.UNPACKED),
        Smoothness(0.15, (3.0, 3.0, 4.0), 2.0),
        _at_least("tokens", LARGE),
    ),
    "attention, forward": Source(
        ATTENTION,
        kernel_rows.attention,
        SMOOTH_ATTENTION,
        _at_least("queries", LARGE),
        others={"lengths and batches left out": _lengths},
    ),
    "attention, decode": Source(
        DECODE_ATTENTION,
        kernel_rows.decodes,
        SMOOTH_DECODE,
        _at_least("tokens", LARGE),
    ),
    "latent attention, decode": Source(
        LATENT_DECODES,
        kernel_rows.latent_decodes,
        SMOOTH_DECODE,
        _at_least("tokens", LARGE),
    ),
    "exchanges of experts": Source(
        EXCHANGE,
        kernel_rows.exchanges,
        SMOOTH_EXCHANGE,
        _at_least("tokens", LARGE),
        families=False,
        others={f"{n} times the ranks": partial(_more_ranks, n) for n in (2, 4)},
    ),
    "collectives": Source(
        COLLECTIVES,
        kernel_rows.collectives,
        Smoothness(0.15, (2.0, 2.0)),
        _at_least("nbytes", LARGE_COLLECTIVE),
    ),
    "all-reduces of engines": Source(
        ENGINE_CALLS,
        kernel_rows.engine_calls,
        Smoothness(0.15, (2.0, 2.0)),
        _at_least("nbytes", LARGE_COLLECTIVE),
    ),
    "casts": Source(
        CASTS,
        kernel_rows.casts,
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
        f"{title}\n\n{table(source, groups, errors)}"
        for name, source in SOURCES.items()
        for title, groups, errors in tables(name, source, folder)
    )


def shipped_tables(name: str, source: Source, folder: Path) -> list[tuple[str, Groups, Errors]]:
    """The errors of the table that ships."""
    groups = source.read(folder)
    errors = {
        key: np.log(model_of(source.kind, *key).seconds(measured.sizes) / measured.seconds)
        for key, measured in groups.items()
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
        away = family_errors(source, groups)
        title = f"{name}, families of devices left out (80% intervals hold {coverage(away):.0%})"
        tables.append((title, groups, away))
    write(source.kind, lines(source, groups, learnt, shapes, away))
    others = source.others.items()
    return tables + [(f"{name}, {title}", *judge(folder, learnt)) for title, judge in others]


def family_errors(source: Source, groups: Groups) -> Errors:
    """By what other families of devices share, and the specification of the device."""
    errors = {}
    for family in FAMILIES:
        others = {key: group for key, group in groups.items() if key.device not in family}
        test = [key for key in groups if key.device in family and relatives(others, key)]
        for _, alike in grouped(test, lambda key: key[1:]).items():
            model = shared_model(source, others, alike[0])
            for key in alike:
                measured = groups[key]
                predicted = replace(model, chip=measured.chip).seconds(measured.sizes)
                errors[key] = np.log(predicted / measured.seconds)
    return errors


def coverage(away: Errors) -> float:
    """The share of kernels in 80% intervals by the errors of other families that were left out:
    the mean over devices, precisions and engines."""
    shares = []
    for key, errors in away.items():
        family = next(each for each in FAMILIES if key.device in each)
        others = relatives([each for each in away if each.device not in family], key)
        if others:
            spread = spread_of(np.concatenate([away[each] for each in others]))
            shares.append((np.abs(errors) < EIGHTY * spread).mean())
    return float(np.mean(shares))


def relatives(groups: Iterable[Key], key: Key) -> list[Key]:
    """Those of its precision and engine. If there are none: those of all precisions below 16 bits,
    or of all others, but for engines that wait for their host."""
    alike = [each for each in groups if each[1:] == key[1:]]
    narrow = WIDTHS[key.precision] < OUTPUT
    return alike or [
        each
        for each in groups
        if (WIDTHS[each.precision] < OUTPUT) == narrow and not each.engine.endswith(EAGER)
    ]


def shared_model(source: Source, groups: Groups, key: Key) -> KernelModel:
    """What the families of devices share for the precision and engine of `key`."""
    chosen = relatives(groups, key)
    families = [
        {each: groups[each] for each in chosen if each.device in family} for family in FAMILIES
    ]
    return shared_fit(source.kind, [each for each in families if each], source.smoothness)


def lines(
    source: Source, groups: Groups, learnt: Learnt, errors: Errors, away: Errors
) -> dict[Key, KernelModel]:
    """The lines of a table. What families share is as far off as for a family left out."""
    table = {key: replace(model, spread=spread_of(errors[key])) for key, model in learnt.items()}
    for _, keys in grouped(learnt, lambda key: key[1:]).items():
        model = shared_model(source, groups, keys[0]) if len(keys) > 1 else learnt[keys[0]]
        spread = spread_of(np.concatenate([away[key] for key in keys if key in away]))
        table[keys[0]._replace(device=ALL)] = replace(model, spread=spread)
    return table


def table(source: Source, groups: Groups, errors: Errors) -> str:
    """The errors of each device, precision and engine, and their medians over all."""
    rows = pd.DataFrame(
        [
            {**key._asdict(), "kernels": len(each), **_figures(source, groups[key], each)}
            for key, each in errors.items()
        ]
    )
    sizes = rows.drop(columns=[*Key._fields, "kernels"]).abs()
    ends = pd.DataFrame({"median": sizes.median(), "worst": sizes.max()}).T
    whole = pd.concat([rows, ends.rename_axis("device").reset_index()], ignore_index=True)
    return formatted(whole, FORMATS)


def _figures(source: Source, measured: Measured, errors: Floats) -> dict[str, float]:
    relative, large = np.abs(np.expm1(errors)), source.large(measured)
    seconds, some = measured.seconds[large], large.any()
    return {
        "error": float(np.median(relative)),
        "p90": float(np.quantile(relative, 0.9)),
        "large ones": float(np.median(relative[large])) if some else np.nan,
        "their bias": seconds @ np.exp(errors[large]) / seconds.sum() - 1 if some else np.nan,
    }
