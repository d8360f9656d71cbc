"""Synchronous SGD with a parameter server: workers push gradients, servers update, workers pull
parameters.

After Li et al., Scaling Distributed Machine Learning with the Parameter Server, OSDI 2014.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simulator.collectives.collective import ALL_REDUCE
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.steps import kinds
from simulator.steps.kinds import Label
from simulator.training.conditions import Attempt
from simulator.training.model import Model, Tensor
from simulator.training.plan import COMMUNICATION, COMPUTE, Holdings, Plan, Setting
from simulator.training.strategy import Served, option
from simulator.training.trainer import ServerTrainer, columns
from topologies.topology import Floats, Ints, Numbers
from topologies.units import format_bytes

LANES = ("compute", "communication")


def units_of(model: Model, pipelined: bool) -> dict[int, Tensor]:
    """The parameters that are pushed, updated and pulled together: those of a layer, or of the
    whole model.

    Their key is the number of the layer whose forward is the first to need them. Their gradients
    are complete when its backward ends.
    """
    if not pipelined:
        return {0: Tensor("model", model.parameters)}
    layers = enumerate(model.layers)
    return {number: Tensor(each.name, each.nbytes) for number, each in layers if each.nbytes}


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
        setting.check_size(self._operations(model, setting.ranks, len(units)))
        return _ServedSteps(self, model, setting, units).run()

    def _operations(self, model: Model, ranks: int, units: int) -> int:
        separate = bool(self.server_kind)
        hosts = ranks if self.server == "sharded" else 1
        pairs = hosts * (ranks if separate else ranks - 1)
        unit = 4 * pairs + ranks + hosts * (1 if separate else 3)
        scatter = (ranks if separate else ranks - 1) * (self.scatter and model.inputs > 0)
        layers = 2 * ranks * len(model.layers)
        return layers + units * unit + ranks + scatter + (not self.pipelined)

    def adding(self, model: Model) -> float:
        """Seconds in which a server adds a worker's gradients to the sum."""
        return 3 * model.gradients / self.memory(model)


class _ServedSteps(ServerTrainer):
    """The steps of one run. Each worker's next forward of a layer waits for `arrivals[layer]`, the
    first for `batch`.

    The ranks in `hosts` serve, each with a shard of every unit. A pair is a worker and a server on
    another rank; pairs are in the order in which they communicate. A worker's buffer has a slot for
    each shard, unit by unit. A server has a slot for its shard of each unit, and then slots for
    the gradients of each worker.
    """

    def __init__(
        self, options: SSGD, model: Model, setting: Setting, units: dict[int, Tensor]
    ) -> None:
        self.options, ranks = options, setting.ranks
        every = np.arange(ranks)
        if options.server == "sharded":
            self.hosts, self.worker = every, np.tile(every, ranks - 1)
            self.server = (self.worker + np.repeat(every[1:], ranks)) % ranks
        else:
            self.hosts = np.array([ranks if options.server_kind else 0])
            self.worker = every[every != self.hosts[0]]
            self.server = np.full(len(self.worker), self.hosts[0])
        shares = (
            np.array([unit.nbytes for unit in units.values()]) / model.parameters / len(self.hosts)
        )
        self.units = units
        builder = ScheduleBuilder(
            ranks,
            model.gradients,
            slots=np.repeat(shares, len(self.hosts)).tolist(),
            scratch=np.append(shares / model.gradient_width, np.tile(shares, ranks)).tolist(),
            servers=options.servers(ranks),
        )
        super().__init__(model, setting, builder, LANES)
        self.slower = np.pad(self.factors, ((0, 0), (0, 1)), constant_values=1.0)
        self.arrivals: dict[int, Ints] = {}
        self.batch: Ints | None = None

    def run(self) -> Plan:
        """Forward, backward, push, update, pull; where a worker fails, forward and restart."""
        for number, attempt in enumerate(self.attempts):
            self._forward(attempt)
            if self.failed():
                continue
            updated, moved = self._backward(self.slower[number])
            if not self.options.pipelined:
                self.batch = self._scatter(attempt, self._at_all(updated[0]))
            self._end(moved)
        return self.plan(holdings=self._holdings(), words=(self._described(),))

    def _end(self, moved: list[Ints]) -> None:
        self.phase(Label(kinds.PULL))
        waits = columns(self.batch, *self.arrivals.values())
        last = self.builder.compute(self.ranks, 0.0, lane=COMMUNICATION, after=waits)
        for each in moved:
            self._span(self.worker, self.server, each)
        if not self.options.pipelined:
            complete = self.builder.compute(self.hosts[0], 0.0, lane=COMMUNICATION, after=last)
            self.arrivals[0] = self._at_all(complete[0])
        self.end(last)

    def _at_all(self, operation: int) -> Ints:
        return np.full(len(self.ranks), operation, dtype=np.int32)

    def _forward(self, attempt: Attempt) -> None:
        first, *later_layers = self.model.layers
        done = self.forward(first, self.batch, self.arrivals.pop(0, None))
        early = self.options.pipelined and not attempt.fails
        self.batch = self._scatter(attempt, done) if early else None
        for number, layer in enumerate(later_layers, 1):
            self.forward(layer, self.arrivals.pop(number, None))

    def _backward(self, slower: Floats) -> tuple[Ints, list[Ints]]:
        """Backward and exchange. Returns the updates of the first unit at every server, and what
        moved units, for every pair."""
        first, moved = np.zeros(0, dtype=np.int32), list[Ints]()
        for number in reversed(range(len(self.model.layers))):
            ready = self.backward(self.model.layers[number])
            if number in self.units:
                updated, *both = self._exchange(number, ready, slower)
                first, moved = first if moved else updated, moved + both
        return first, moved

    def _exchange(self, layer: int, ready: Ints, slower: Floats) -> tuple[Ints, Ints, Ints]:
        """Push, sum, update and pull the unit of a layer, whose gradients are `ready`. Returns the
        updates at every server, and the pushes and pulls of every pair."""
        number, unit = list(self.units).index(layer), self.units[layer]
        builder, hosts = self.builder, self.hosts
        home, host_slots = self._home(number), self._shard(number, hosts)
        slot, inbox = self._shard(number, self.server), self._inbox(number)
        share = unit.nbytes / self.model.parameters / len(hosts)
        self.phase(Label(kinds.PUSH, unit.name))
        after = ready[self.worker, None]
        pushed = builder.copy(self.worker, self.server, slot=slot, target=inbox, after=after)
        self.phase(Label(kinds.SUM, unit.name))
        seconds = share * self.options.adding(self.model) * slower[self.server]
        added = builder.compute(self.server, seconds, lane=COMPUTE, reads=inbox)
        self._sum(number, ready, added)
        self.phase(Label(kinds.UPDATE, unit.name))
        seconds = share * self.options.updating(self.model) * slower[hosts]
        updated = builder.compute(hosts, seconds, lane=COMPUTE, reads=home, writes=home)
        self.phase(Label(kinds.PULL, unit.name))
        pulled = builder.copy(self.server, self.worker, slot=home, target=slot)
        if not self.options.server_kind:
            builder.copy(hosts, hosts, slot=home, target=host_slots)
        self.arrivals[layer] = builder.compute(
            self.ranks, 0.0, lane=COMMUNICATION, reads=host_slots[0], count=len(hosts)
        )
        return updated, pushed, pulled

    def _shard(self, unit: int, host: Numbers) -> Numbers:
        """The slot of the shard of `host` in a worker's buffer."""
        return np.asarray(unit * len(self.hosts) + np.searchsorted(self.hosts, host))

    def _home(self, unit: int) -> int:
        """The slot of its shard at a server."""
        return len(self.units) * len(self.hosts) + unit

    def _inbox(self, unit: int) -> Numbers:
        """The slot of the worker's gradients at the server, for every pair."""
        return np.asarray(self._home(unit) + len(self.units) * (1 + self.worker))

    def _sum(self, number: int, ready: Ints, added: Ints) -> None:
        """The data of the sum, which take no time. The sum begins with a server's own gradients, or
        with those of the first worker."""
        hosts, inbox, home = self.hosts, self._inbox(number), self._home(number)
        first = 1 if self.options.server_kind else 0
        slot, after = self._shard(number, hosts), ready[hosts, None] if not first else added[:1]
        self.builder.copy(hosts, hosts, slot=inbox[:1] if first else slot, target=home, after=after)
        server, after = self.server[first:], added[first:, None]
        self.builder.reduce(server, server, slot=inbox[first:], target=home, after=after)

    def _scatter(self, attempt: Attempt, after: Ints) -> Ints:
        """Send each worker its next batch. Returns the operation of its arrival at each worker, or
        -1."""
        source, arrivals = self.hosts[0], self._at_all(-1)
        wants = self.setting.conditions.has_input(attempt.step + 1, len(self.ranks))
        is_sent = self.options.scatter and self.model.inputs > 0
        to = np.flatnonzero(wants & (self.ranks != source) & is_sent)
        self.phase(Label(kinds.SCATTER))
        sent = self.builder.signal(source, to, nbytes=self.model.inputs, after=after[to, None])
        arrivals[to] = sent
        self._span(to, np.full(len(to), source), sent)
        return arrivals

    def _span(self, worker: Numbers, server: Numbers, moved: Ints) -> None:
        """Note communications for both ends that are workers."""
        serves = server < len(self.ranks)
        self.note(worker, moved, moved)
        self.note(server[serves], moved[serves], moved[serves])

    def _holdings(self) -> Holdings:
        """Memory outside of slots: copies of the parameters at the workers (servers have them in
        slots), buffers, and the optimizer state at the servers."""
        model, workers, hosts = self.model, len(self.ranks), self.hosts
        nbytes, share = np.zeros(max(workers, int(hosts.max()) + 1)), 1 / len(hosts)
        nbytes[:workers] = model.parameters + model.buffers
        nbytes[hosts[hosts < workers]] -= model.parameters * share
        nbytes[hosts] += model.parameters * model.state * share
        return Holdings(nbytes, model.parameters * model.state + model.buffers)

    def _described(self) -> str:
        if not len(self.worker):
            return "one worker, which serves: nothing is pushed"
        width = self.model.gradient_width / len(self.hosts)
        sizes = sorted(unit.nbytes * width for unit in self.units.values())
        texts = dict.fromkeys(format_bytes(size) for size in (sizes[0], sizes[-1]))
        return "pushes of " + " to ".join(texts)


STRATEGIES = {"ssgd": SSGD}
