"""Synchronous SGD with a parameter server: workers push gradients, servers update, workers pull
parameters.

After Li et al., Scaling Distributed Machine Learning with the Parameter Server, OSDI 2014.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.collectives.collective import ALL_REDUCE
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.steps import kinds
from simulator.steps.kinds import Label
from simulator.training.conditions import Attempt
from simulator.training.model import Model
from simulator.training.plan import COMMUNICATION, COMPUTE, Holdings, Plan, Setting
from simulator.training.server_trainer import ServerTrainer
from simulator.training.size import Size
from simulator.training.strategy import Served, option
from simulator.training.trainer import columns
from topologies.topology import Floats, Ints
from topologies.units import format_bytes

LANES = ("compute", "communication")
Numbers = npt.NDArray[np.integer]
"""Numbers of ranks or slots."""


class Unit(NamedTuple):
    """The parameters that are pushed, updated and pulled together: `parameters` bytes.

    Their gradients are complete when the backward of layer number `layer` ends. The forward of that
    layer is the first to need the parameters.
    """

    name: str
    parameters: float
    layer: int


def units_of(model: Model, pipelined: bool) -> list[Unit]:
    """The layers that have parameters, or the model as a whole."""
    if not pipelined:
        return [Unit("model", model.parameters, 0)]
    return [
        Unit(layer.name, layer.nbytes, number)
        for number, layer in enumerate(model.layers)
        if layer.nbytes
    ]


@dataclass(frozen=True)
class SSGD(Served):
    """Each worker computes on its own batch. A server adds up all gradients, updates the
    parameters, and sends them back.

    The five parts are: copy the model to the workers, split the data, forward and backward, gather
    the gradients, update. A step here begins with the third part and ends with the first two parts
    of the next step. Then the workers have the new parameters and their next batch. The order is
    the same, and so is the mean time of a step in a long run.

    Serial by step, the parts follow one another, and the model is one unit. A worker pushes all its
    gradients after its backward. The server updates when it has the gradients of all. Its port
    sends the parameters to every worker, and after them the batches. The next forwards start when
    all workers have everything.

    Pipelined, each layer that has parameters is a unit. It is pushed when its backward is done,
    updated when the server has it from all workers, and pulled. Only the next forward of this layer
    waits for it. Units travel in the order in which they are ready, the last layer's first. A batch
    is sent one step ahead, when the worker's first forward is done. A worker without a batch
    computes nothing, and pushes and pulls like the others.

    A server with a memory of M bytes/s adds gradients in order of arrival. A worker's G bytes take
    3G / M: read them, and read and write the sum. If a worker serves, the sum starts with its own
    gradients. The update then takes (2P + 2sP + G) / M for P bytes of parameters and s bytes of
    state a byte: it reads and writes parameters and state, and reads the sum. On a device that also
    computes, both are kernels on its main lane, and are as slow as that worker. The machine's times
    to copy and to merge (γ) are added.

    In the data, the parameters of a unit are the sum of all its gradients, because only the server
    knows the rest of an update. So a step is an all-reduce. A worker communicates while its push,
    its pull or its batch is on the way. A worker that serves communicates while any of them is.
    """

    promise = ALL_REDUCE

    pipelined: bool = option(
        False, "yes: push, update and pull layer by layer; no: all of them at once"
    )
    scatter: bool = option(
        True, "no: workers load their own data; yes: the server (of several, rank 0) sends it"
    )

    def plan(self, model: Model, setting: Setting) -> Plan:
        """The steps of `setting` as a schedule."""
        units = units_of(model, self.pipelined)
        setting.check_size(self.size(model, setting, len(units)))
        places = self._places(setting.ranks, len(units))
        shares = (
            np.array([unit.parameters for unit in units]) / model.parameters / len(places.hosts)
        )
        builder = ScheduleBuilder(
            setting.ranks,
            model.gradients,
            slots=np.repeat(shares, len(places.hosts)).tolist(),
            scratch=np.concatenate(
                (shares / model.gradient_width, np.tile(shares, setting.ranks))
            ).tolist(),
            servers=self.servers(setting.ranks),
        )
        steps = _Steps(self, ServerTrainer(model, setting, builder, LANES), units, places)
        for number, attempt in enumerate(steps.trainer.attempts):
            steps.step(number, attempt)
        words = (_described(model, units, places),)
        holdings = _holdings(model, setting.ranks, places)
        return steps.trainer.plan(holdings=holdings, words=words)

    def size(self, model: Model, setting: Setting, units: int) -> Size:
        """Operations of a run with `units` units."""
        ranks, separate = setting.ranks, bool(self.server_kind)
        hosts = ranks if self.server == "sharded" else 1
        pairs = hosts * (ranks if separate else ranks - 1)
        unit = 4 * pairs + ranks + hosts * (1 if separate else 3)
        scatter = (ranks if separate else ranks - 1) * (self.scatter and model.inputs > 0)
        return Size(
            2 * ranks * len(model.layers) + units * unit + ranks + scatter + (not self.pipelined)
        )

    def adding(self, model: Model) -> float:
        """Seconds in which a server adds a worker's gradients to the sum."""
        return 3 * model.gradients / self.memory(model)

    def _places(self, ranks: int, units: int) -> _Places:
        every = np.arange(ranks)
        if self.server == "sharded":
            worker, turn = np.tile(every, ranks - 1), np.repeat(every[1:], ranks)
            return _Places(units, every, worker, (worker + turn) % ranks)
        host = ranks if self.server_kind else 0
        worker = every[every != host]
        return _Places(units, np.array([host]), worker, np.full(len(worker), host))


class _Places(NamedTuple):
    """The ranks that serve, each with a shard of every unit. The pairs of a worker and a server on
    another rank, in the order in which they communicate. The slots."""

    units: int
    hosts: Numbers
    worker: Numbers
    server: Numbers

    def shard(self, unit: int, host: Numbers) -> Numbers:
        """The slot of the shard of `host` in a worker's buffer."""
        return np.asarray(unit * len(self.hosts) + np.searchsorted(self.hosts, host))

    def kept(self, unit: int) -> int:
        """The slot of its shard at a server."""
        return self.units * len(self.hosts) + unit

    def inbox(self, unit: int, worker: Numbers) -> Numbers:
        """The slot at a server for the gradients of `worker`."""
        return np.asarray(self.kept(unit) + self.units * (1 + worker))


class _Exchanged(NamedTuple):
    """The operations that moved a unit, for every pair, and the operations that updated it, for
    every server."""

    pushed: Ints
    updated: Ints
    pulled: Ints


class _Steps:
    """The steps of one run. Each worker's next forward of a layer waits for `arrivals[layer]`, the
    first for `batch`."""

    def __init__(
        self, options: SSGD, trainer: ServerTrainer, units: list[Unit], places: _Places
    ) -> None:
        self.options, self.trainer, self.places = options, trainer, places
        self.builder, self.model, self.workers = trainer.builder, trainer.model, trainer.ranks
        self.units = {unit.layer: (number, unit) for number, unit in enumerate(units)}
        factors = trainer.setting.conditions.factors(len(trainer.attempts), len(self.workers))
        self.slower = np.pad(factors, ((0, 0), (0, 1)), constant_values=1.0)
        self.arrivals: dict[int, Ints] = {}
        self.batch: Ints | None = None

    def step(self, number: int, attempt: Attempt) -> None:
        """Forward, backward, push, update, pull; where a worker fails, forward and restart."""
        self._forward(attempt)
        if self.trainer.failed():
            return
        exchanged = self._backward(self.slower[number])
        if not self.options.pipelined:
            self.batch = self._scatter(attempt, self._at_all(exchanged[0].updated[0]))
        self._end(exchanged)

    def _end(self, exchanged: list[_Exchanged]) -> None:
        self.trainer.phase(Label(kinds.PULL))
        waits = columns(self.batch, *self.arrivals.values())
        last = self.builder.compute(self.workers, 0.0, lane=COMMUNICATION, after=waits)
        for pushed, _, pulled in exchanged:
            for moved in (pushed, pulled):
                self._span(self.places.worker, self.places.server, moved, moved)
        if not self.options.pipelined:
            complete = self.builder.compute(
                self.places.hosts[0], 0.0, lane=COMMUNICATION, after=last
            )
            self.arrivals[0] = self._at_all(complete[0])
        self.trainer.end(last)

    def _at_all(self, operation: int) -> Ints:
        """For each worker, the operation to wait for."""
        return np.full(len(self.workers), operation, dtype=np.int32)

    def _forward(self, attempt: Attempt) -> None:
        first, *later_layers = self.model.layers
        done = self.trainer.forward(first, self.batch, self.arrivals.pop(0, None))
        self.batch = (
            self._scatter(attempt, done) if self.options.pipelined and not attempt.fails else None
        )
        for number, layer in enumerate(later_layers, 1):
            self.trainer.forward(layer, self.arrivals.pop(number, None))

    def _backward(self, slower: Floats) -> list[_Exchanged]:
        exchanged = []
        for number in reversed(range(len(self.model.layers))):
            ready = self.trainer.backward(self.model.layers[number])
            if number in self.units:
                exchanged.append(self._exchange(*self.units[number], ready, slower))
        return exchanged

    def _exchange(self, number: int, unit: Unit, ready: Ints, slower: Floats) -> _Exchanged:
        """Push, sum, update and pull a unit whose gradients are `ready`."""
        builder, places, hosts = self.builder, self.places, self.places.hosts
        slot = places.shard(number, places.server)
        home = places.kept(number)
        host_slots = places.shard(number, hosts)
        share = unit.parameters / self.model.parameters / len(hosts)
        pushed = self._push(number, unit, ready, share * self.options.adding(self.model) * slower)
        self.trainer.phase(Label(kinds.UPDATE, unit.name))
        seconds = share * self.options.updating(self.model) * slower[hosts]
        updated = builder.compute(hosts, seconds, lane=COMPUTE, reads=home, writes=home)
        self.trainer.phase(Label(kinds.PULL, unit.name))
        pulled = builder.copy(places.server, places.worker, slot=home, target=slot)
        if not self.options.server_kind:
            builder.copy(hosts, hosts, slot=home, target=host_slots)
        self.arrivals[unit.layer] = builder.compute(
            self.workers, 0.0, lane=COMMUNICATION, reads=host_slots[0], count=len(hosts)
        )
        return _Exchanged(pushed, updated, pulled)

    def _push(self, number: int, unit: Unit, ready: Ints, seconds: Floats) -> Ints:
        """Push to every server, which adds the gradients to the sum in the `seconds` of its
        rank."""
        worker, server = self.places.worker, self.places.server
        inbox, slot = self.places.inbox(number, worker), self.places.shard(number, server)
        self.trainer.phase(Label(kinds.PUSH, unit.name))
        pushed = self.builder.copy(
            worker, server, slot=slot, target=inbox, after=ready[worker, None]
        )
        self.trainer.phase(Label(kinds.SUM, unit.name))
        self._add(
            number, ready, self.builder.compute(server, seconds[server], lane=COMPUTE, reads=inbox)
        )
        return pushed

    def _add(self, number: int, ready: Ints, added: Ints) -> None:
        """The data of the sum, which take no time. The sum begins with a server's own gradients, or
        with those of the first worker."""
        places, hosts, first = self.places, self.places.hosts, 1 if self.options.server_kind else 0
        inbox, home = places.inbox(number, places.worker), places.kept(number)
        if first:
            self.builder.copy(hosts, hosts, slot=inbox[:1], target=home, after=added[:1])
        else:
            self.builder.copy(
                hosts,
                hosts,
                slot=places.shard(number, hosts),
                target=home,
                after=ready[hosts, None],
            )
        server, slot = places.server[first:], inbox[first:]
        self.builder.reduce(server, server, slot=slot, target=home, after=added[first:, None])

    def _scatter(self, attempt: Attempt, after: Ints) -> Ints:
        """Send each worker its next batch. Returns the operation of its arrival at each worker, or
        -1."""
        source, arrivals = self.places.hosts[0], np.full(len(self.workers), -1, dtype=np.int32)
        wants = self.trainer.setting.conditions.has_input(attempt.step + 1, len(self.workers))
        to = np.flatnonzero(
            wants & (self.workers != source) & (self.options.scatter and self.model.inputs > 0)
        )
        self.trainer.phase(Label(kinds.SCATTER))
        sent = self.builder.signal(source, to, nbytes=self.model.inputs, after=after[to, None])
        arrivals[to] = sent
        self._span(to, np.full(len(to), source), sent, sent)
        return arrivals

    def _span(self, worker: Numbers, server: Numbers, first: Ints, last: Ints) -> None:
        """Note a communication for both ends that are workers."""
        serves = server < len(self.workers)
        self.trainer.note(worker, first, last)
        self.trainer.note(server[serves], first[serves], last[serves])


def _holdings(model: Model, workers: int, places: _Places) -> Holdings:
    """Memory outside of slots: copies of the parameters at the workers (servers have them in
    slots), buffers, and the optimizer state at the servers."""
    nbytes, share = np.zeros(max(workers, int(places.hosts.max()) + 1)), 1 / len(places.hosts)
    nbytes[:workers] = model.parameters + model.buffers
    nbytes[places.hosts[places.hosts < workers]] -= model.parameters * share
    nbytes[places.hosts] += model.parameters * model.state * share
    return Holdings(nbytes, model.parameters * model.state + model.buffers)


def _described(model: Model, units: list[Unit], places: _Places) -> str:
    if not len(places.worker):
        return "one worker, which serves: nothing is pushed"
    sizes = sorted(unit.parameters * model.gradient_width / len(places.hosts) for unit in units)
    return "pushes of " + " to ".join(
        dict.fromkeys(format_bytes(size) for size in (sizes[0], sizes[-1]))
    )


STRATEGIES = {"ssgd": SSGD}
