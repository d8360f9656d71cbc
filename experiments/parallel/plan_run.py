"""A step of a plan that has been simulated: a row for tables and files, and all figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.models.accelerators import accelerator
from experiments.output import Record
from experiments.parallel.expert_routing import Routing, routing_of
from experiments.parallel.memory_advice import advice
from experiments.parallel.plan_errors import kind_of, mean_error, span_of
from experiments.parallel.plan_proofs import prove
from experiments.parallel.plan_step import (
    Setting,
    Training,
    interval_of,
    memory_of,
    state_of,
    work_of,
)
from experiments.parallel.plan_text import Plan
from experiments.profiles.interval_levels import interval_columns, level_of
from simulator.analysis.critical_path import critical_path
from simulator.parallel.passes import COMPUTE, EP, HOST, STREAMS
from simulator.parallel.plan_memory import PARTS, State, StepMemory, stages_of_zero
from simulator.parallel.step import Step, write
from simulator.parallel.step_measures import StepMeasures, length_of, measure
from simulator.steps.kinds import GATHER, KINDS, REDUCE
from simulator.training.conditions import Attempt, Conditions, Epochs
from simulator.uncertainty.interval import Interval

if TYPE_CHECKING:
    from experiments.parallel.plan_course import ConditionedSteps

MEANINGS = {
    "tp": "tensor parallel",
    "cp": "context parallel",
    "ep": "experts' all-to-all",
    "data": "gradients and parameters",
    "experts": "gradients of experts",
    "send": "transfers between stages",
    "tied": "gradients that two devices share",
    "gather": "parameters of units",
    "reduce": "gradients of units",
    "replica": "gradients across replicas",
    "copy": "copies into the buffers of gathers",
}
"""What each stream carries."""
COPIED = {GATHER: "copy parameters", REDUCE: "copy gradients"}
"""What a device computes for collectives: copies out of their buffers and into them."""


@dataclass(frozen=True, eq=False)
class PlanRun:
    """A step of a plan."""

    training: Training
    plan: Plan
    step: Step
    transfers_s: float | None = None
    """Seconds of the step with every transfer of all ranks, if they are simulated."""
    interval: Interval | None = None
    """The interval of the step, if the profile says how sure it is."""
    course: ConditionedSteps | None = None
    """The steps under conditions; None without any."""
    epochs: Epochs = field(default_factory=Epochs)

    @cached_property
    def measures(self) -> StepMeasures:
        """What the devices of the pipeline do in a step."""
        return measure(self.step) if self.course is None else self.course.measures

    @property
    def timed(self) -> tuple[Step, list[Attempt]]:
        """The steps that are drawn, and which they are."""
        course = self.course
        if course is None:
            return self.step, [Attempt(0)]
        return course.step, course.conditions.attempts(course.steps)

    @property
    def seconds(self) -> float:
        """Seconds of a step, in which the input pipeline reads its samples."""
        return max(self.measures.step, self.reading)

    @property
    def input_s(self) -> float:
        """Seconds of a step in which all devices wait for samples."""
        return self.seconds - self.measures.step

    @property
    def reading(self) -> float:
        """Seconds in which the input pipeline reads the samples of a step."""
        return self.epochs.reading(self.plan.sequences)

    @cached_property
    def memory(self) -> StepMemory:
        """The memory of a rank of each device."""
        return memory_of(self.training, self.plan, self.step.work)

    @property
    def capacity(self) -> float:
        """Bytes of a device."""
        return accelerator(self.training.times.device).capacity

    @property
    def missing(self) -> float:
        """Bytes that a device lacks; 0 if the plan fits."""
        return max(0.0, self.memory.peak - self.capacity)

    @cached_property
    def advice(self) -> str:
        """What would make the plan fit; empty for a plan that fits."""
        topology = self.step.work.times.topology
        return advice(self.training, self.plan, topology) if self.missing else ""

    @cached_property
    def zero(self) -> list[dict[str, float]]:
        """What each stage of ZeRO would hold and send on the fullest device."""

        def state(zero: int) -> State:
            return state_of(self.training, replace(self.plan, zero=zero))

        return stages_of_zero(self.step.work, state, self.memory.fullest)

    @cached_property
    def routing(self) -> Routing | None:
        """What the router of the plan does; None for a plan without one."""
        training = self.training
        topology = self.step.work.times.topology
        return routing_of(training.shape, self.plan, training.seq, topology)

    @cached_property
    def row(self) -> dict[str, Any]:
        """The columns of the step. Seconds are means over the devices of the pipeline, samples are
        sequences, and rates are of all GPUs together."""
        training, plan, seconds = self.training, self.plan, self.seconds
        gpus, times, sequences = plan.degrees.ranks, training.times, plan.sequences
        tokens_per_s = sequences * training.seq / (seconds or 1.0)
        span = span_of(self.step.work.times.topology, gpus)
        error, measured = mean_error(kind_of(times, plan.zero, span))
        means = "computing", "optimizer", "exposed", "hidden", "launching", "idle", "idle_between"
        of_devices = {name: getattr(self.measures, name).reshape(plan.pp, -1) for name in means}
        interval = self.interval and self.interval.at_least(self.reading)
        return {
            "model": training.name,
            "device": times.device,
            "plan": str(plan),
            "gpus": gpus,
            "batch": sequences,
            "micro_batches": plan.micro_batches,
            "step_s": seconds,
            "samples_per_s": sequences / (seconds or 1.0),
            "tokens_per_s": tokens_per_s,
            # Those of the model on each GPU: what is computed again does not count.
            "tflops": tokens_per_s * training.flops_per_token / gpus / 1e12,
            "mfu": training.mfu(tokens_per_s, gpus),
            **{f"{name}_s": float(each.sum(axis=1).mean()) for name, each in of_devices.items()},
            "model_error": error,
            "measured": measured,
            "memory_bytes": self.memory.peak,
            "missing_bytes": self.missing,
            "transfers_s": self.transfers_s,
            **interval_columns(interval),
            **(self.course.row(seconds) if self.course else {}),
            **self.epochs.columns(sequences, seconds, self.input_s),
        }

    @property
    def record(self) -> Record:
        """The row with the parts of the memory of the fullest device."""
        parts = self.memory.peaks[self.memory.fullest].tolist()
        return self.row | {f"{name}_bytes": part for name, part in zip(PARTS, parts, strict=True)}

    @property
    def table_row(self) -> Record:
        """The columns of a run of a strategy, then the others. Seconds are those of a mean GPU,
        whose optimizer counts as computing, and whose waiting for the CPU as idle."""
        row, course = self.row, self.course
        plain = measure(course.plain) if course else self.measures
        busy = float((plain.computing + plain.optimizer).mean())
        common = {
            "ranks": row["gpus"],
            "batch": self.plan.sequences / self.plan.degrees.ranks,
            "step_s": row["step_s"],
            "samples_per_s": row["samples_per_s"],
            # A share of what the GPUs would reach if they did nothing but compute, without
            # conditions.
            "efficiency": busy / (self.seconds or 1.0),
            "computing_s": row["computing_s"] + row["optimizer_s"],
            "restarting_s": float(self.measures.restarting.mean()),
            "exposed_s": row["exposed_s"],
            "hidden_s": row["hidden_s"],
            "idle_s": row["idle_s"] + row["launching_s"],
            "peak_B": row["memory_bytes"],
            "fits": not self.missing,
        }
        return {"model": row["model"], "device": row["device"], **common} | {
            key: value for key, value in self.record.items() if key not in common
        }

    @cached_property
    def path(self) -> Mapping[str, float]:
        """Seconds of the critical path, by what runs there; the longest first."""
        step, steps = self.step, 1
        if self.course is not None:
            step, steps = self.course.step, self.course.steps
        path, seconds = critical_path(step.timeline), np.zeros((len(STREAMS), len(KINDS)))
        lane, kind = (each[path.operation] for each in (step.graph.lane, step.graph.kind))
        np.add.at(seconds, (lane, kind), path.seconds / steps)
        parts = {
            _named(stream, kind): float(seconds[stream, kind])
            for stream, kind in np.argwhere(seconds)
        }
        if self.input_s:
            parts["waiting for samples"] = self.input_s
        return dict(sorted(parts.items(), key=lambda part: -part[1]))

    @cached_property
    def devices(self) -> list[dict[str, Any]]:
        """What each device of the pipeline does, a record each."""
        measures, place = self.measures, self.step.work.pipeline.place
        seconds = {f"{name}_s": getattr(measures, name) for name in ("computing", "optimizer")}
        seconds["launching_s"] = measures.launching
        for stream, name in enumerate(STREAMS):
            if name in MEANINGS:
                seconds[f"exposed_{name}_s"] = measures.exposed[:, stream]
                seconds[f"hidden_{name}_s"] = measures.hidden[:, stream]
        seconds |= {f"{name}_s": getattr(measures, name) for name in ("idle", "idle_between")}
        rare = {"restarting_s": measures.restarting, "input_s": np.full(self.plan.pp, self.input_s)}
        seconds |= {name: column for name, column in rare.items() if column.any()}
        stages = [np.flatnonzero((place == device).any(axis=0)) for device in range(self.plan.pp)]
        return [
            {
                "device": device,
                "stages": " ".join(map(str, stages[device].tolist())),
                **{name: float(column[device]) for name, column in seconds.items()},
            }
            for device in range(self.plan.pp)
        ]

    @cached_property
    def shared(self) -> list[dict[str, Any]]:
        """Streams that met on full media, a record a pair: which medium cost most, for how long
        they were there together on a mean device, and what the stream lost."""
        ran, media = self.step.ran, self.step.shared.media
        names = self.step.work.times.topology.medium_names

        def name_of(medium: int) -> str:
            return names[medium] if medium < len(names) else "reductions"

        seconds = ran.lost.sum(axis=0), ran.together.sum(axis=0)
        return [
            {
                "stream": STREAMS[stream],
                "beside": STREAMS[other],
                "medium": name_of(int(media[ran.lost[:, stream, other].argmax()])),
                "together_s": float(together) / self.plan.pp,
                "lost_s": float(lost) / self.plan.pp,
            }
            for (stream, other), lost, together in zip(
                np.argwhere(seconds[0]).tolist(),
                *(each[seconds[0] > 0].tolist() for each in seconds),
                strict=True,
            )
        ]

    @cached_property
    def router(self) -> Mapping[str, Any]:
        """What a router does, empty without one: of a forward, how long a dispatch and a combine
        take, and their shares of what a mean device waits for all-to-alls of experts in a step."""
        exposed = float(self.measures.exposed[:, EP].mean())
        return self.routing.figures(self.step.work, exposed) if self.routing else {}

    @cached_property
    def proven(self) -> Mapping[str, str]:
        """What is proven on integers, by the kind of group. Raises WrongResult if it is wrong."""
        return prove(self.plan, self.routing, self.training.shape.experts)

    def figures(self) -> dict[str, object]:
        """All figures, for JSON. Sizes are bytes."""
        memory = self.memory
        return {
            "summary": self.row,
            "critical_path_s": self.path,
            "devices": self.devices,
            "shared": self.shared,
            "memory": {
                "advice": self.advice,
                "capacity": self.capacity,
                "missing": self.missing,
                "fullest_device": memory.fullest,
                "devices": [memory.parts(device) for device in range(self.plan.pp)],
                "over_time": self.held,
                "zero": self.zero,
            },
            "router": self.router,
            "proven": self.proven,
            **({"waits": self.course.waits} if self.course else {}),
        }

    @property
    def held(self) -> list[dict[str, float]]:
        """When each action of the fullest device begins and ends, and what it holds at most."""
        device = self.memory.fullest
        rows = slice(*self.memory.pipeline.starts[device : device + 2])
        sizes = self.memory.held[rows].sum(axis=1)
        actions = np.column_stack((self.step.spans[rows], sizes)).tolist()
        return [dict(zip(("start_s", "end_s", "bytes"), each, strict=True)) for each in actions]


@dataclass(frozen=True, kw_only=True)
class PlanJob(Setting):
    """A plan of parallel training on as many GPUs as it has."""

    plan: Plan
    transfers: bool
    """Whether every transfer of all ranks is simulated, too."""
    conditions: Conditions = field(default_factory=Conditions)
    steps: int = 1
    epochs: Epochs = field(default_factory=Epochs)

    @property
    def has_conditions(self) -> bool:
        """Whether steps or ranks differ."""
        return self.steps > 1 or bool(self.slow_links) or not self.conditions.alike

    def step(self) -> Step:
        """The operations of a step."""
        return write(work_of(self.training, self.plan, self.groups(self.plan)))

    def answer(self) -> PlanRun:
        """The simulated step."""
        step, level, course = self.step(), level_of(self.profile), None
        seconds = _with_transfers(step, force=self.rules.force) if self.transfers else None
        if self.has_conditions:
            from experiments.parallel.plan_course import course_of

            plain = replace(self, slow_links={}).step() if self.slow_links else step
            course = course_of(plain, step, self.conditions, self.steps, force=self.rules.force)
        taken = course.seconds_of if course else length_of
        interval = interval_of(step.work, level, seconds=taken) if level else None
        return PlanRun(self.training, self.plan, step, seconds, interval, course, self.epochs)

    @property
    def gpus(self) -> int:
        """The GPUs of the plan."""
        return self.plan.degrees.ranks

    def row(self) -> Record:
        """The row of a table with strategies."""
        return self.answer().table_row

    def records(self) -> list[Record]:
        """The row of the table."""
        return [self.answer().record]


def _with_transfers(step: Step, *, force: bool) -> float:
    """Seconds of the step with every transfer of all ranks, after a proof of its results."""
    from simulator.parallel.step_transfers import simulate, write_transfers
    from simulator.steps.written import prove

    written = write_transfers(step, force=force)
    prove(written)
    return simulate(step, written).makespan


def _named(stream: int, kind: int) -> str:
    if stream == COMPUTE:
        return COPIED.get(kind, KINDS[kind])
    return "launch" if stream == HOST else f"{STREAMS[stream]}: {KINDS[kind]}"
