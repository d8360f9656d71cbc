"""`simctl validate --held-out`: the errors of a profile, and of its kind of model on unseen points.

With `--compare nccl` it also prints the errors of NCCL's own model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from experiments import output
from experiments.calibration import nccl_comparison
from experiments.calibration.calibrated_profile import calibrate, error, points
from experiments.calibration.known_paths import machine_for
from experiments.calibration.libraries import NCCL, library
from experiments.calibration.library import Library
from experiments.calibration.observations import FitCurve, FitPoints
from experiments.calibration.prediction import CurveJob, PredictedPoint, errors, predict_all
from experiments.measurements import Curve, curve_checks, doubts, read_all
from experiments.measurements.curve_checks import chosen_curves
from experiments.options.log_options import JudgingOptions
from experiments.options.values import parse_tolerance
from experiments.pages.reports.result import Picture, Result
from experiments.profiles import find
from experiments.profiles.interval_levels import at_level, interval_ends
from experiments.profiles.profile_document import Calibrated, Error
from simulator.profile import Profile
from topologies.catalogue import Blueprint
from topologies.catalogue import find as find_machine
from topologies.errors import InputError
from topologies.topology import Floats, Topology

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
    machine = find_machine(profile.machine)
    kind = library(profile.library).on(machine)
    generation = _generation(compare, profile, kind) if compare is not None else None
    curves, measured = _measured(request, profile, kind)
    nccl_times = (
        _nccl_times(profile, machine, curves, measured, generation)
        if generation is not None
        else []
    )
    simulated = at_level(profile.simulated(), request.level)
    judged = _judge(simulated, machine, kind, measured)
    held_out = _held_out_errors(machine, kind, measured)
    answer = _answer(request, simulated, judged, nccl_times, held_out)
    answer.publish(request.written_files, request.format)
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
    output.note_skipped((*measurements.skipped, *skipped))
    warnings = curve_checks.warnings(curves, in_place=in_place)
    output.note(*doubts(curves), *warnings, *_ignored(profile, measured))
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
    profile: Profile,
    judged: Sequence[Judged],
    nccl_times: NcclTimes,
    held_out: dict[str, Error],
) -> Result:
    records = _records(judged, nccl_times)
    unseen = {name: error.model_dump() for name, error in held_out.items()}
    report = {"points": records, "unseen": unseen}
    pictures = [Picture("All curves", (profile.name, judged))]
    return Result("judge", report, records, request.parameters, None, profile, pictures)


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
            **interval_ends(row.interval),
            **({} if row.interval is None else {"inside": row.inside}),
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
