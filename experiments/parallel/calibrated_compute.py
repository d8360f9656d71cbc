"""The times of a device, fitted to measured steps on a machine."""

from __future__ import annotations

from pathlib import Path

from experiments import output
from experiments.models.device_times import DeviceTimes
from experiments.models.shape_catalogue import choose
from experiments.parallel.compute_calibration import Row, calibrate
from experiments.parallel.measured_steps import MeasuredStep, read_steps
from experiments.parallel.plan_step import Training, machine_of, work_of
from experiments.parallel.plan_text import parse_plan
from simulator.parallel.group_times import GroupTimes
from simulator.parallel.step import write
from simulator.profile import Profile
from topologies.catalogue import Blueprint
from topologies.errors import InputError


def calibrated_by(
    path: Path, times: DeviceTimes, machine: Blueprint, profile: Profile | None = None
) -> DeviceTimes:
    """The times with the factors that the steps of a file tell. Says on stderr what they are.

    Raises InputError for a step that cannot be simulated.
    """
    rows = []
    for step in read_steps(path):
        try:
            rows.append(_row(step, machine, profile))
            rows[-1].step(times)
        except InputError as error:
            raise InputError(f"{step.where}: {error}") from None
    factors = calibrate(rows, times)
    output.note(
        f"{path.name}: {output.counted(len(rows), 'measured step')}: times of the device x "
        f"{factors.scale:.3f}, launches x {factors.launch:.3f}"
    )
    return factors.of(times)


def _row(step: MeasuredStep, machine: Blueprint, profile: Profile | None) -> Row:
    choice, plan = choose(step.model), parse_plan(step.plan)
    topology = machine_of(machine, plan)
    groups = GroupTimes(topology, plan.degrees, profile=profile)

    def seconds(times: DeviceTimes) -> float:
        training = Training(choice.name, choice.shape, choice.seq, times)
        return write(work_of(training, plan, groups)).timeline.makespan

    return Row(seconds, step.seconds)
