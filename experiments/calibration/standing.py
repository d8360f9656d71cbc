"""Errors of a profile, and where they stand among those on measured machines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from experiments.shipped_tables import rows_of
from topologies.errors import InputError
from topologies.topology import Floats

RESULTS = Path(__file__).with_name("results")
"""The folder of the results of `python -m experiments.studies calibration`."""
POPULATION = Path(__file__).parents[1] / "profiles" / "population"
"""The folder of the results of `python -m experiments.studies populations`."""


class KnownErrors(NamedTuple):
    """Errors |ln(expected / measured)| on measured machines."""

    what: str
    middle: str
    """What an error is over the points of a group: "mean" or "median"."""
    names: Sequence[str]
    """The machine, or the runs, of each."""
    errors: Floats
    inside: Floats
    """The shares of points inside their 80% intervals."""


def calibrated() -> KnownErrors:
    """Of calibrated profiles, on sizes that their fits had not seen."""
    called = {row["group"]: row["runs"] for row in rows_of(RESULTS / "groups.csv")}
    known = [row for row in rows_of(RESULTS / "held-out.csv") if row["sizes_discrepancy"]]
    return KnownErrors(
        "sizes that their fits had not seen",
        "mean",
        [called.get(row["group"], row["group"]) for row in known],
        np.array([float(row["sizes_discrepancy"]) for row in known]),
        np.array([float(row["sizes_inside"]) for row in known]),
    )


def unmeasured(library: str) -> KnownErrors:
    """Of predictions of a library from the specification of a machine alone."""
    name = f"{library.lower()}-left-out.csv"
    if not (POPULATION / name).is_file():
        raise InputError(f"no measured machine has {library}")
    known = rows_of(POPULATION / name)
    return KnownErrors(
        "machines that were left out",
        "median",
        [row["machine"] for row in known],
        np.array([float(row["specification"]) for row in known]),
        np.array([float(row["inside"]) for row in known]),
    )


def standing(known: KnownErrors, errors: Floats, inside: float | None) -> Iterator[str]:
    """A line on the error of a user's points among those that are known, and one on the share of
    points inside their 80% intervals, if they have any.

    >>> errors = np.array([0.1, 0.3, 0.5])
    >>> known = KnownErrors("sizes", "median", ["a", "b", "c"], errors, np.ones(3))
    >>> for line in standing(known, np.array([0.2, 0.4]), 0.5): print(line)
    your median |ln(expected / measured)| is 30.0%: 1 of 3 has less, on sizes; nearest: b (30.0%)
    your share inside is 50%: theirs is 100% in the median, 100% at least
    """
    error = float(np.mean(errors) if known.middle == "mean" else np.median(errors))
    smaller = int((known.errors < error - 1e-9).sum())
    nearest = int(np.abs(known.errors - error).argmin())
    yield (
        f"your {known.middle} |ln(expected / measured)| is {error:.1%}: {smaller} of "
        f"{len(known.errors)} {'has' if smaller == 1 else 'have'} less, on {known.what}; nearest: "
        f"{known.names[nearest]} ({known.errors[nearest]:.1%})"
    )
    if inside is not None:
        share = np.median(known.inside)
        yield (
            f"your share inside is {inside:.0%}: theirs is {share:.0%} in the median, "
            f"{known.inside.min():.0%} at least"
        )
