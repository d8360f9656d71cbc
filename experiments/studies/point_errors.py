"""Errors of single points and collectives: reasons, fits of two points, and NCCL's own model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from experiments import output
from experiments.calibration import nccl_comparison
from experiments.calibration.calibrated_profile import points
from experiments.calibration.fit import explore
from experiments.calibration.held_out import LeftOut
from experiments.calibration.libraries import NCCL
from experiments.calibration.library import Library, linked, port
from experiments.calibration.library_model import Model
from experiments.calibration.observations import FitCurve, FitPoints
from experiments.measurements import Curve
from topologies.topology import Flags, Floats

STEP = 4.0
"""A step takes so many times as long, for at most so many times the size."""
LEAST = 3
"""So many points of a curve show that it is off as a whole."""
SHARE = 0.5
"""A reason explains at least this share of an error."""


def curve_of(
    points: FitPoints, lefts: tuple[LeftOut, ...], number: int
) -> tuple[pd.DataFrame, list[int]]:
    """A measured curve by its number, in ascending sizes, and the numbers of its points.

    Columns: `size`, `seconds`, `off`, log(measured / predicted) where the fitted model had left the
    size out, else nan, and the `algorithm` that the fit says ran.
    """
    table = pd.DataFrame({"size": points.size, "seconds": points.seconds})
    table = table.assign(off=np.nan, algorithm="")
    for left in lefts:
        table.loc[left.fold, "off"] = left.off
        table.loc[left.fold, "algorithm"] = left.where.algorithm
    curve = table[points.curve == number].sort_values("size")
    return curve, curve.index.tolist()


def reason(curve: pd.DataFrame, place: int) -> str:
    """Reasons of the error of a point at `place`, in words. Empty if there is none.

    >>> times = {"size": [1e3, 2e3, 4e3], "seconds": [1e-5, 9e-5, 2e-5], "off": [0, 1.9, 0]}
    >>> bump = pd.DataFrame({**times, "algorithm": "ring"})
    >>> reason(bump, 1).split("; ")[:2]
    ['a bump: 6.4 times the time between its neighbours', 'a step: 9.0 times the size before']
    """
    return "; ".join(_reasons(curve, place))


def _reasons(curve: pd.DataFrame, place: int) -> Iterator[str]:
    size, seconds, off, algorithm = (curve[name].to_numpy() for name in curve)
    last, needed = len(size) - 1, SHARE * abs(off[place])
    if 0 < place < last:
        near = [place - 1, place + 1]
        between = np.exp(np.interp(np.log(size[place]), np.log(size[near]), np.log(seconds[near])))
        bump = np.log(seconds[place] / between)
        if abs(bump) >= needed and bump * off[place] > 0:
            yield f"a bump: {np.exp(bump):.2g} times the time between its neighbours"
    if place and size[place] <= STEP * size[place - 1]:
        ratio = seconds[place] / seconds[place - 1]
        if ratio > STEP:
            yield f"a step: {ratio:.1f} times the size before"
    if place and seconds[place] < seconds[:place].max():
        yield "no longer than a smaller size"
    if place < last and seconds[place] > seconds[place + 1 :].min():
        yield "longer than a larger size"
    if place in (0, last):
        yield f"the end of the curve: its {'largest' if place else 'smallest'} size"
    known = off[~np.isnan(off)]
    middle = float(np.median(known)) if len(known) >= LEAST else 0.0
    if middle * off[place] > 0 and abs(middle) >= needed:
        slower = "slower" if middle > 0 else "faster"
        yield f"the whole curve is {slower}: by {np.exp(abs(middle)) - 1:.0%} in the median"
    for neighbour in (place - 1, place + 1):
        if 0 <= neighbour <= last and algorithm[neighbour] != algorithm[place]:
            yield f"another algorithm: {algorithm[place]}, and {algorithm[neighbour]} nearby"
            break


def two_points(
    name: str, library: Library, curves: Sequence[Curve], everything: Sequence[Curve]
) -> Iterator[output.Record]:
    """Mean errors on all other points of each collective of which two points were fitted, if
    `everything` has point-to-point curves on such GPUs."""
    links = _links(library, curves, everything)
    for collective in dict.fromkeys(curve.collective for curve in curves) if links else ():
        same = [curve for curve in curves if curve.collective == collective]
        measured, _ = points(same, library)
        keep = ends(measured)
        record: dict[str, output.Value] = {"group": name, "collective": collective}
        record["points"] = int(np.count_nonzero(~keep))
        chosen = {"with_links": linked(library, port(links)), "without_links": library}
        for column, each in chosen.items():
            seconds = transfer(measured, each, keep)
            record[column] = float(np.abs(seconds / measured.seconds - 1)[~keep].mean())
        yield record


def _links(library: Library, curves: Sequence[Curve], everything: Sequence[Curve]) -> list[Curve]:
    """Point-to-point curves on the GPUs of some curves whose library moves data between GPUs: of
    their family and a "p"."""
    gpu = re.compile(r"\b[ABHV]\d{2,3}\b")
    family = f"{curves[0].family.split()[0]}p"
    words = set(gpu.findall(" ".join(curve.machine for curve in curves)))
    return [
        curve
        for curve in everything
        if curve.family.split()[0] == family and library is NCCL and "GPU" in curve.machine
        if words & set(gpu.findall(curve.machine))
    ]


def ends(points: FitPoints) -> Flags:
    """Two points of the first curve on the most ranks: its largest size, and the one nearest to
    a 128th of it."""
    curve = int(np.argmax([curve.ranks for curve in points.curves]))
    indices = np.flatnonzero(points.curve == curve)
    sizes = points.size[indices].max() / np.array([1, 128])
    nearest = np.abs(np.log(points.size[indices][:, None] / sizes)).argmin(axis=0)
    chosen = np.zeros(len(points), dtype=np.bool_)
    chosen[indices[nearest]] = True
    return chosen


def transfer(points: FitPoints, library: Library, keep: Flags) -> Floats:
    """Seconds of all `points`, shape (points,), by a fit of only those that `keep` chooses. The
    other parameters stay at their start.

    All points are on one number of nodes: the fit does not say how a machine slows down with nodes.
    """
    parts: Sequence[Flags] = [keep[points.curve == c] for c in range(len(points.curves))]
    pairs = zip(points.curves, parts, strict=True)
    few = FitPoints(curve.at(part) for curve, part in pairs if part.any())
    fit, model = explore(Model(few, library)), Model(points, library)
    names = (parameter.name for parameter in fit.model.parameters)
    values = dict(zip(names, fit.inner, strict=True))
    inner = np.array([values.get(one.name, one.inner) for one in model.parameters])
    for _ in range(2):
        model.explore(inner)
    return model.predict(inner)


def matched(curve: FitCurve, generation: str) -> float:
    """The bandwidth in bytes/s with which the model is right at the curve's largest size, or
    nearest to it."""
    largest = curve.at(curve.sizes == curve.sizes.max())
    low, high = 1e6, 1e13
    for _ in range(60):
        middle = float(np.sqrt(low * high))
        slow = nccl_comparison.predict(largest, generation, middle)[0] > largest.seconds[0]
        low, high = (middle, high) if slow else (low, middle)
    return high


def held_out_by_nccl(points: FitPoints, generation: Mapping[str, str], protocol: str) -> Floats:
    """Errors |log(predicted / measured)| of points left out, shape (points,).

    An error is nan if a point is not left out, or NCCL has no model. Bandwidths come from the
    largest sizes that are kept:

    - "sizes" and "plateau": of the same curve;
    - "ranks": of the curve with the same label on the most ranks that are kept.
    """
    errors = np.full(len(points), np.nan)
    for c, curve in enumerate(points.curves):
        on_curve = points.curve == c
        if gpu := generation.get(curve.name):
            seconds = _of_others(points, c, gpu) if protocol == "ranks" else _of_its_own(curve, gpu)
            errors[on_curve] = np.abs(np.log(seconds / curve.seconds))
    return np.where(_left(points, protocol), errors, np.nan)


def _left(points: FitPoints, protocol: str) -> Flags:
    if protocol == "ranks":
        return np.asarray(points.ranks == points.ranks.max())
    return points.largest | (protocol == "sizes")


def _of_its_own(curve: FitCurve, generation: str) -> Floats:
    """Every size with the bandwidth of the largest other size."""
    if len(curve.sizes) < 2:
        return np.full(len(curve.sizes), np.nan)
    largest = curve.sizes == curve.sizes.max()
    usual, without = (matched(sizes, generation) for sizes in (curve, curve.at(~largest)))
    return np.where(
        largest,
        nccl_comparison.predict(curve, generation, without),
        nccl_comparison.predict(curve, generation, usual),
    )


def _of_others(points: FitPoints, c: int, generation: str) -> Floats:
    curve = points.curves[c]
    alike = [
        peer
        for peer in points.curves
        if peer.label == curve.label and peer.ranks < points.ranks.max()
    ]
    if not alike:
        return np.full(len(curve.sizes), np.nan)
    return nccl_comparison.predict(
        curve, generation, matched(max(alike, key=lambda peer: peer.ranks), generation)
    )
