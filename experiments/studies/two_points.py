"""Errors of fits of two points, with the links of the machine and without them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np

from experiments import output
from experiments.calibration.calibrated_profile import points
from experiments.calibration.fit import explore
from experiments.calibration.libraries import NCCL
from experiments.calibration.library import Library
from experiments.calibration.library_model import Model
from experiments.calibration.observations import FitPoints, Flags
from experiments.calibration.transfer import linked, port
from experiments.measurements import Curve
from topologies.topology import Floats


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
