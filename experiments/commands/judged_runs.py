"""`simctl validate --held-out`: the errors of a profile, and of its kind of model on unseen points.

With `--compare nccl` it also prints the errors of NCCL's own model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from experiments import output
from experiments.calibration import nccl_comparison
from experiments.calibration.calibrated_profile import calibrate, error, points
from experiments.calibration.known_paths import machine_for
from experiments.calibration.libraries import NCCL, library
from experiments.calibration.library import Library
from experiments.calibration.observations import FitCurve, FitPoints
from experiments.calibration.prediction import (
    CurveJob,
    PredictedPoint,
    coverage,
    errors,
    predict_all,
)
from experiments.calibration.standing import error_table
from experiments.commands.answer import Answer, check_files
from experiments.measurements import Curve, doubts, read_all, setups
from experiments.measurements.setups import chosen_curves
from experiments.options.log_options import JudgingOptions
from experiments.options.values import parse_tolerance
from experiments.profiles import find
from experiments.profiles.interval_levels import at_level, span
from experiments.profiles.profile_document import Calibrated, Error
from simulator.profile import Profile
from topologies.catalogue import Blueprint
from topologies.catalogue import find as find_machine
from topologies.errors import InputError
from topologies.topology import Floats, Topology
from topologies.units import format_bytes, format_seconds, in_binary

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WORST = 5
ENOUGH = 4
"""The least points that are fitted without some of them."""
Judged = tuple[FitCurve, list[PredictedPoint]]
NcclTimes = Sequence[Floats]
"""Seconds by NCCL's own model, an array of shape (sizes,) for each curve; empty without
`--compare`."""


def run(request: JudgingOptions) -> int:
    """Print the errors of the profile and of its kind of model; 1 if a mean error is above the
    tolerance."""
    limit = np.inf if request.tolerance is None else parse_tolerance(request.tolerance)
    if request.profile is None:
        raise InputError("--held-out: name the profile to judge, like --profile mine.yaml")
    profile, compare = find(request.profile), request.compare
    check_files(plot=request.plot, report=request.report)
    machine = find_machine(profile.machine)
    kind = library(profile.library).on(machine)
    generation = _generation(compare, profile, kind) if compare is not None else None
    curves, measured = _measured(request, profile, kind)
    nccl_times = (
        _nccl_times(profile, machine, curves, measured, generation)
        if generation is not None
        else []
    )
    judged = _judge(at_level(profile.simulated(), request.level), machine, kind, measured)
    held_out = _held_out_errors(machine, kind, measured)
    answer = _answer(request, profile, judged, nccl_times, held_out)
    answer.write(plot=request.plot, report=request.report)
    answer.show(request.format, lambda: _text(profile, judged, nccl_times, held_out))
    return int(max(_mean_errors(judged, held_out)) > limit)


def _measured(
    request: JudgingOptions, profile: Calibrated, kind: Library
) -> tuple[Sequence[Curve], FitPoints]:
    """The curves of the runs, and their points. Notes say what is skipped or doubtful."""
    measurements = read_all(request.logs, request.family)
    curves = chosen_curves(measurements.curves, request.only, request.forced)
    in_place = request.in_place
    measured, skipped = points(
        curves, kind, in_place=in_place, least=1, profile=profile.simulated()
    )
    for line in (*measurements.skipped, *skipped):
        output.note(f"skipped {line}")
    warnings = setups.warnings(curves, in_place=in_place)
    for line in (*doubts(curves), *warnings, *_ignored(profile, measured)):
        output.note(line)
    return curves, measured


def _mean_errors(judged: Sequence[Judged], held_out: dict[str, Error]) -> list[float]:
    """The mean errors that the tolerance limits: of the profile, and of unseen sizes and ranks."""
    profile_error = float(np.concatenate([errors(rows) for _, rows in judged]).mean())
    unseen = (held_out[name].model for name in ("sizes", "ranks") if name in held_out)
    return [profile_error, *(mean for mean in unseen if mean is not None)]


def _ignored(profile: Calibrated, measured: FitPoints) -> Iterator[str]:
    """A line for each curve that is judged by another algorithm than its label says."""
    for curve in measured.curves:
        if curve.ignored:
            label = (
                f"{Path(curve.name).name}: by {profile.profile} the label {curve.forced} has no "
                f"effect here"
            )
            yield f"{label}, {', '.join(curve.algorithms)} may run"


def _held_out_errors(machine: Blueprint, kind: Library, measured: FitPoints) -> dict[str, Error]:
    """Errors of the same kind of model on points that its fit has not seen; none where there are
    too few to fit."""
    if len(measured) < ENOUGH:
        output.note(
            f"{output.counted(len(measured), 'point')}: too few to fit without some of them"
        )
        return {}
    calibration = calibrate(measured, kind, machine_for(machine), output.Progress("steps"))
    return {fold.protocol: error(fold) for fold in calibration.held_out}


def _generation(compare: str, profile: Calibrated, kind: Library) -> str:
    """Of GPUs, as `--compare` has it; empty: as the runs say."""
    generation = nccl_comparison.asked(compare)
    if kind.name != NCCL.name:
        raise InputError(
            f"--compare {compare}: {profile.profile} is of {kind.name}, expected a profile of NCCL"
        )
    return generation


def _judge(
    simulated: Profile, machine: Blueprint, kind: Library, measured: FitPoints
) -> list[Judged]:
    """Every curve simulated under the profile as it is."""
    progress = output.Progress("algorithms and numbers of ranks")

    def build(job: CurveJob) -> Topology:
        return machine.for_job(job.ranks, job.nodes).build(job.ranks)

    rows = predict_all(simulated, kind, measured.curves, build, progress)
    return list(zip(measured.curves, rows, strict=True))


def _nccl_times(
    profile: Calibrated,
    machine: Blueprint,
    curves: Sequence[Curve],
    measured: FitPoints,
    chosen: str,
) -> list[Floats]:
    """Every curve by NCCL's own model."""
    generations = nccl_comparison.generations(curves, chosen)
    unknown = next((curve.name for curve in measured.curves if curve.name not in generations), None)
    if unknown:
        raise InputError(
            f"--compare nccl: {unknown} does not say which GPUs it is of: name them, like "
            f"nccl:hopper"
        )
    output.note(
        f"NCCL's own model (src/graph/tuning.cc) has β of Simple by {profile.profile}, all else "
        f"is NCCL's: "
        f"GPUs are {', '.join(sorted({generations[curve.name] for curve in measured.curves}))}"
    )
    return [
        nccl_comparison.of_profile(profile, machine, curve, generations[curve.name])
        for curve in measured.curves
    ]


def _answer(
    request: JudgingOptions,
    profile: Calibrated,
    judged: Sequence[Judged],
    nccl_times: NcclTimes,
    held_out: dict[str, Error],
) -> Answer:
    def draw() -> Figure:
        from experiments.pictures.result_curves import prediction_drawing

        return prediction_drawing(name, judged)

    name, runs = profile.profile, ",".join(map(str, request.logs))
    parameters = {"profile": name, "runs": runs, "family": request.family, "only": request.only}
    records = _records(judged, nccl_times)
    unseen = {name: error.model_dump() for name, error in held_out.items()}
    report = {"points": records, "unseen": unseen}
    return Answer("judge", report, records, parameters, pictures=[("All curves", draw)])


def _text(
    profile: Calibrated,
    judged: Sequence[Judged],
    nccl_times: NcclTimes,
    held_out: dict[str, Error],
) -> str:
    again = "the same kind of model, fitted to these runs without the points that it is judged by"
    tables = [_as_it_is(profile, judged, nccl_times), _worst(judged)]
    tables += [f"{again}\n{error_table(held_out)}"] if held_out else []
    return "\n\n".join(tables)


def _records(judged: Sequence[Judged], nccl_times: NcclTimes) -> list[output.Record]:
    """A record a point; with NCCL's own model, its seconds and error, none where it has no
    model."""
    records: list[output.Record] = [
        {
            "curve": Path(curve.name).name,
            "collective": curve.collective,
            "ranks": curve.ranks,
            "size_B": row.size,
            "measured_s": row.measured,
            "predicted_s": row.seconds,
            "error": row.error,
            "algorithm": row.algorithm,
            "protocol": row.protocol,
            **_ends(row),
        }
        for curve, rows in judged
        for row in rows
    ]
    if not nccl_times:
        return records
    nccl_seconds = [
        None if np.isnan(value) else float(value) for value in np.concatenate(nccl_times)
    ]
    measured = [row.measured for _, rows in judged for row in rows]
    return [
        {**record, "nccl_s": value, "nccl_error": None if value is None else value / seconds - 1}
        for record, value, seconds in zip(records, nccl_seconds, measured, strict=True)
    ]


def _ends(row: PredictedPoint) -> output.Record:
    """The expected time and the interval, if the profile has intervals."""
    if (sure := row.interval) is None:
        return {}
    ends = {"expected_s": sure.expected, "low_s": sure.low, "high_s": sure.high}
    return {**ends, "inside": row.inside}


def _level(judged: Sequence[Judged]) -> float:
    """That of the intervals, 0 without any."""
    return next((row.interval.level for _, rows in judged for row in rows if row.interval), 0.0)


def _as_it_is(profile: Calibrated, judged: Sequence[Judged], nccl_times: NcclTimes) -> str:
    nccl_errors = [
        np.abs(seconds / curve.seconds - 1)
        for (curve, _), seconds in zip(judged, nccl_times, strict=False)
    ]
    level = _level(judged)
    table = [
        [
            "curve",
            "algorithm",
            "ranks",
            "sizes",
            "mean",
            "median",
            "worst",
            *([f"inside {level:.0%}"] if level else []),
            *(["NCCL's own model"] if nccl_errors else []),
        ]
    ]
    for k, (curve, rows) in enumerate(judged):
        wrong = errors(rows)
        shares = [f"{value:.1%}" for value in (wrong.mean(), np.median(wrong), wrong.max())]
        shares += [f"{coverage(rows) or 0.0:.0%}"] if level else []
        shares += [_mean(nccl_errors[k])] if nccl_errors else []
        algorithm = curve.algorithms[0] if len(curve.algorithms) == 1 else "chosen"
        table.append([Path(curve.name).stem, algorithm, str(curve.ranks), str(len(rows)), *shares])
    all_errors = np.concatenate([errors(rows) for _, rows in judged])
    middle = f"mean {all_errors.mean():.1%}, median {np.median(all_errors):.1%}"
    middle += (
        f"; NCCL's own model: mean {_mean(np.concatenate(nccl_errors))}" if nccl_errors else ""
    )
    if level:
        share = coverage([row for _, rows in judged for row in rows])
        middle += f"; {share or 0.0:.0%} are inside their {level:.0%} intervals"
    total = f"|predicted / measured - 1| of {len(all_errors)} points: {middle}"
    return f"{profile.profile} as it is\n{output.align(table)}\n{total}"


def _mean(wrong: Floats) -> str:
    """Of the points that there is a model of."""
    known = wrong[~np.isnan(wrong)]
    return f"{known.mean():.1%}" if len(known) else "-"


def _worst(judged: Sequence[Judged]) -> str:
    rows = sorted(
        ((row, curve) for curve, rows in judged for row in rows),
        key=lambda point: -abs(point[0].error),
    )
    sure = ["expected", f"{level:.0%} of runs"] if (level := _level(judged)) else []
    table = [["worst points", "size", "measured", "predicted", "error", *sure, "by"]]
    binary = in_binary(row.size for row, _ in rows[:WORST])
    for row, curve in rows[:WORST]:
        cells = [
            format_bytes(row.size, binary),
            format_seconds(row.measured),
            format_seconds(row.seconds),
            f"{row.error:+.1%}",
        ]
        if row.interval:
            _, low, high, *_ = row.interval
            cells += [format_seconds(row.interval.expected), span(low, high)]
        table.append([Path(curve.name).stem, *cells, f"{row.algorithm}, {row.protocol}"])
    return output.align(table)
