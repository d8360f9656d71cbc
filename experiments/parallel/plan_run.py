"""Steps of a plan that have been simulated, also under conditions: a row for tables and files, and
all figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from experiments.models.accelerators import accelerator
from experiments.names import members_name
from experiments.output import Record
from experiments.parallel.expert_routing import Routing, prove, routing_of
from experiments.parallel.measured_steps import kind_of, mean_error, nearest_run, span_of
from experiments.parallel.plan_space import advice
from experiments.parallel.plan_step import RESERVED, Training, memory_of, state_of
from experiments.parallel.plan_text import Plan
from experiments.profiles.interval_levels import interval_columns
from simulator.analysis.critical_path import critical_path
from simulator.parallel.passes import COMPUTE, EP, HOST, STREAMS
from simulator.parallel.plan_memory import PARTS, StepMemory, stages_of_zero
from simulator.parallel.step import Step
from simulator.parallel.step_measures import StepMeasures, by_device, length_of, measure, peer_waits
from simulator.steps.kinds import GATHER, KINDS, REDUCE
from simulator.training.conditions import Attempt, Conditions, Epochs
from simulator.uncertainty.interval import Interval

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
    """Steps of a plan."""

    training: Training
    plan: Plan
    step: Step
    """A step without conditions, but with slow links."""
    plain: Step
    """As many steps as count, without conditions: `step` itself if there are none."""
    whole: Step
    """All steps one behind the other, with those that a failure repeats."""
    conditions: Conditions = field(default_factory=Conditions)
    steps: int = 1
    transfers_s: float | None = None
    """Seconds of the step with every transfer of all ranks, if they are simulated."""
    interval: Interval | None = None
    """The interval of the step, if the profile says how sure it is."""
    epochs: Epochs = field(default_factory=Epochs)
    defaults: str = ""
    """The framework whose defaults the plan has, and what they are; empty for none."""

    @property
    def has_conditions(self) -> bool:
        """Whether steps or ranks differ."""
        return self.whole is not self.step

    @property
    def attempts(self) -> list[Attempt]:
        """The steps of `whole`."""
        return self.conditions.attempts(self.steps)

    @cached_property
    def measures(self) -> StepMeasures:
        """What a mean rank of each device of the pipeline does in a step."""
        measures, graph = measure(self.whole), self.whole.graph
        if not self.has_conditions:
            return measures
        return by_device(measures, graph, self.plain.graph.place_of, self.steps)

    @property
    def seconds(self) -> float:
        """Seconds of a step, in which the input pipeline reads its samples."""
        return max(self.measures.step, self.epochs.reading(self.plan.sequences))

    @property
    def input_s(self) -> float:
        """Seconds of a step in which all devices wait for samples."""
        return self.seconds - self.measures.step

    @cached_property
    def memory(self) -> StepMemory:
        """The memory of a rank of each device."""
        return memory_of(self.training, self.plan, self.step.work)

    @property
    def capacity(self) -> float:
        return accelerator(self.training.times.device).capacity

    @property
    def missing(self) -> float:
        """Bytes that a device lacks; 0 if the plan fits."""
        return max(0.0, self.memory.peak - self.capacity)

    @property
    def allocation(self) -> dict[str, float]:
        """Bytes of the fullest device: those of its tensors, those that PyTorch's allocator
        reserves for them where memory is left, and the least margin that it needs."""
        memory, device = self.memory, self.memory.fullest
        tensors, moving = float(memory.allocated[device]), float(memory.moving[device])
        margin = memory.parts(device).get("fragmentation", 0.0)
        others = memory.peak - tensors - margin
        reserved = min(tensors + (RESERVED - 1) * moving, self.capacity - others)
        return {
            "allocated_bytes": tensors,
            "reserved_bytes": max(reserved, tensors + margin),
            "margin_bytes": margin,
        }

    @cached_property
    def advice(self) -> str:
        """What would make the plan fit; empty for a plan that fits."""
        topology = self.step.work.times.topology
        return advice(self.training, self.plan, topology) if self.missing else ""

    @cached_property
    def zero(self) -> list[dict[str, float]]:
        """What each stage of ZeRO would hold and send on the fullest device."""
        return stages_of_zero(
            self.step.work,
            lambda zero: state_of(self.training, replace(self.plan, zero=zero)),
            self.memory.fullest,
        )

    @cached_property
    def routing(self) -> Routing | None:
        """What the router of the plan does; None for a plan without one."""
        topology = self.step.work.times.topology
        return routing_of(self.training.shape, self.plan, self.training.seq, topology)

    @cached_property
    def row(self) -> dict[str, Any]:
        """The columns of the step. Seconds are means over the devices of the pipeline, samples are
        sequences, and rates are of all GPUs together."""
        training, plan, seconds = self.training, self.plan, self.seconds
        gpus, times, sequences = plan.degrees.ranks, training.times, plan.sequences
        tokens_per_s = sequences * training.seq / (seconds or 1.0)
        groups = self.step.work.times
        span = span_of(groups.topology, gpus, links_alone=not groups.laws)
        error, measured = mean_error(kind_of(times, plan.zero, span))
        means = (
            *("computing", "optimizer", "exposed", "hidden"),
            *("launching", "launches", "idle", "idle_between"),
        )
        of_devices = {name: getattr(self.measures, name).reshape(plan.pp, -1) for name in means}
        interval = self.interval and self.interval.at_least(self.epochs.reading(sequences))
        return {
            "model": training.name,
            "device": times.device,
            "plan": str(plan),
            **({"defaults": self.defaults} if self.defaults else {}),
            "gpus": gpus,
            "batch": sequences,
            "micro_batches": plan.micro_batches,
            "step_s": seconds,
            "samples_per_s": sequences / (seconds or 1.0),
            "tokens_per_s": tokens_per_s,
            # Those of the model on each GPU: what is computed again does not count.
            "tflops": training.flops(plan, tokens_per_s) / 1e12,
            "mfu": training.mfu(plan, tokens_per_s),
            **({"peak": times.math} if times.narrow else {}),
            **training.duration(tokens_per_s, gpus),
            **{f"{name}_s": float(each.sum(axis=1).mean()) for name, each in of_devices.items()},
            "model_error": error,
            "measured": measured,
            "memory_bytes": self.memory.peak,
            **self.allocation,
            "missing_bytes": self.missing,
            "transfers_s": self.transfers_s,
            **interval_columns(interval),
            **({"nearest_run": run} if (run := nearest_run(training, plan)) else {}),
            **(self._of_conditions() if self.has_conditions else {}),
            **self.epochs.columns(sequences, seconds, self.input_s),
        }

    def _of_conditions(self) -> Record:
        plain = length_of(self.plain) / self.steps
        return {
            "steps": self.steps,
            "places": self.whole.graph.places,
            "plain_step_s": plain,
            # A share of what the plan reaches without the conditions.
            "relative_speed": plain / (self.seconds or 1.0),
            "restarting_s": float(self.measures.restarting.mean()),
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
        row = self.row
        plain = measure(self.plain) if self.has_conditions else self.measures
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
        graph, path = self.whole.graph, critical_path(self.whole.timeline)
        seconds = np.zeros((len(STREAMS), len(KINDS)))
        rows = graph.lane[path.operation], graph.kind[path.operation]
        np.add.at(seconds, rows, path.seconds / self.steps)
        parts = dict[str, float]()
        for stream, kind in np.argwhere(seconds).tolist():
            name = f"{STREAMS[stream]}: {KINDS[kind]}"
            if stream in (COMPUTE, HOST):
                name = COPIED.get(kind, KINDS[kind]) if stream == COMPUTE else "launch"
            parts[name] = float(seconds[stream, kind])
        if self.input_s:
            parts["waiting for samples"] = self.input_s
        return dict(sorted(parts.items(), key=lambda part: -part[1]))

    @cached_property
    def waits(self) -> list[Record]:
        """Who waits for whom in a step longer than without the conditions: the longest 32 waits,
        the longest first."""
        graph, plain, longer = self.whole.graph, peer_waits(self.plain), []
        device = self.plain.graph.place_of[graph.leaders].tolist()
        for (place, peer, lane), seconds in peer_waits(self.whole).items():
            more = (seconds - plain.get((device[place], device[peer], lane), 0.0)) / self.steps
            longer.append((more, place, peer, lane))
        longer.sort(key=lambda wait: -wait[0])
        # What is below this share of a step are rounding errors.
        least = 1e-9 * length_of(self.whole) / self.steps
        return [
            {
                "device": device[place],
                "ranks": members_name(graph, place),
                "peer_device": device[peer],
                "peer_ranks": members_name(graph, peer),
                "stream": graph.lanes[lane],
                "longer_s": more,
            }
            for more, place, peer, lane in longer[:32]
            if more > least
        ]

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
        return [
            {
                "device": device,
                "stages": " ".join(map(str, np.flatnonzero((place == device).any(axis=0)))),
                **{name: float(column[device]) for name, column in seconds.items()},
            }
            for device in range(self.plan.pp)
        ]

    @cached_property
    def shared(self) -> list[dict[str, Any]]:
        """Streams that met on full media, a record a pair: which medium cost most, for how long
        they were there together on a mean device, and what the stream lost."""
        ran, media = self.step.timeline, self.step.shared.media
        names, pp = self.step.work.times.topology.medium_names, self.plan.pp
        lost, together = ran.lost.sum(axis=0), ran.together.sum(axis=0)
        records = []
        for stream, other in np.argwhere(lost).tolist():
            medium = int(media[ran.lost[:, stream, other].argmax()])
            records.append(
                {
                    "stream": STREAMS[stream],
                    "beside": STREAMS[other],
                    "medium": names[medium] if medium < len(names) else "reductions",
                    "together_s": float(together[stream, other]) / pp,
                    "lost_s": float(lost[stream, other]) / pp,
                }
            )
        return records

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
            **({"waits": self.waits} if self.has_conditions else {}),
        }

    @property
    def held(self) -> list[dict[str, float]]:
        """When each action of the fullest device begins and ends, and what it holds at most."""
        device = self.memory.fullest
        rows = slice(*self.memory.pipeline.starts[device : device + 2])
        sizes = self.memory.held[rows].sum(axis=1)
        actions = np.column_stack((self.step.spans[rows], sizes)).tolist()
        return [dict(zip(("start_s", "end_s", "bytes"), each, strict=True)) for each in actions]
