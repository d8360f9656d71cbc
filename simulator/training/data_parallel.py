"""DataParallel: one process with a thread for each device. The first device has the model and sends
it to all devices in every step.

After torch.nn.DataParallel: data_parallel.py, replicate.py, parallel_apply.py, _functions.py and
comm.py of torch/nn/parallel.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, inf

import numpy as np

from simulator.collectives.chains import chain_broadcast, chain_reduce
from simulator.collectives.collective import REDUCE
from simulator.schedules.schedule import Schedule
from simulator.steps import kinds
from simulator.steps.kinds import Label
from simulator.training.model import Layer, Model
from simulator.training.plan import COMMUNICATION, HeldBytes, Holdings, Plan, Setting
from simulator.training.size import most_operations
from simulator.training.strategy import Strategy, option
from simulator.training.trainer import Trainer
from topologies.errors import InputError
from topologies.ring_search import find_rings
from topologies.topology import Flags, Ints
from topologies.units import format_bytes

LANES = ("compute", "communication", "interpreter")
INTERPRETER = 2
"""The lane of rank 0 on which the threads of the process run Python, one at a time."""


@dataclass(frozen=True)
class DataParallel(Strategy):
    """A step has these parts:

    - The first device scatters the inputs, and broadcasts parameters and buffers.
    - On each device a thread runs the forward.
    - The first device gathers the outputs, computes the loss, and scatters the gradients of the
      outputs.
    - After the backwards, the gradients of the parameters are added up on the first device, which
      alone updates.

    *The interpreter.* One thread at a time runs Python. The forward of a layer needs it for
    `launch` seconds on each device, on one lane for all devices. An operator releases the lock
    while C++ works, so threads take turns. Launches run ahead of the devices: they begin with the
    step, while inputs and parameters are on their way. A layer starts when it is launched and its
    device has done everything before it. Backwards are launched in C++ without the lock, by a
    thread of autograd for each device, and cost nothing here. The next step begins when the update
    is done, as in a loop that reads the loss.

    *Scatter and gather* are copies one after the other, in the order of the devices, whatever links
    they take. A copy between two devices waits for the streams of both.

    *Replicate and reduce.* torch coalesces tensors into chunks of 10 MiB. Here all bytes are cut
    into equal chunks of at most that. NCCL passes them from device to device down chains, which are
    the machine's rings cut before rank 0. For sums it goes on round the rings. NCCL pipelines parts
    of a chunk, so for p > 2 devices each of the two takes up to p - 2 chunks' time too long here.
    Neither overlaps with computing. The broadcast is one node of autograd's graph. Its backward,
    the reduction, runs when the gradients of all parameters of all replicas are there.

    *Outputs.* The first device holds the outputs of the others until its backward is done. Its own
    outputs are among its activations. The gradients of outputs take time and bytes, but no memory
    here, because a model that computes its loss has none.

    A device without input only takes part in the broadcast and the reduction. A step leaves the sum
    of all gradients on the first device, so it is a reduce. The memory of a replica is that of the
    parameters, which every worker has.
    """

    promise = REDUCE

    launch: float = option(
        50e-6, "Python's time a layer and device, one at a time (assumed), like 20us", "seconds"
    )
    # The buffer_size of torch's broadcast_coalesced and reduce_add_coalesced.
    chunk: float = option(
        10 * 2.0**20, "most that is broadcast or reduced at a time, like 10MiB", "bytes"
    )
    scatter: bool = option(True, "no: inputs are on their devices already")

    def __post_init__(self) -> None:
        if not 0 <= self.launch < inf:
            raise InputError(f"dp: launch={self.launch}: seconds, 0 or more")
        if not self.chunk > 0:
            raise InputError(f"dp: chunk={self.chunk}: bytes, more than 0")

    def plan(self, model: Model, setting: Setting) -> Plan:
        """The steps of `setting` as a schedule."""
        ranks, replica = setting.ranks, model.parameters + model.buffers
        orders = np.zeros((1, 1), dtype=np.int32)
        if ranks > 1:
            orders = find_rings(setting.topology, ranks).orders
        segments = self._segments(replica, orders)
        replicate = chain_broadcast(ranks, replica, orders, segments=segments)
        segments = self._segments(model.gradients, orders)
        # Sums go on round the rings.
        reduce = chain_reduce(ranks, model.gradients, orders[:, ::-1], segments=segments)
        steps = _ReplicaSteps(self, model, setting, replicate, reduce)
        for _ in steps.attempts:
            steps.step()
        state = model.parameters * model.state
        holdings = Holdings(
            np.where(np.arange(ranks) == 0, replica + state, replica), replica + state
        )
        words = _described(replicate, len(orders))
        return steps.plan(holdings, steps.stored(), words=words)

    def _segments(self, nbytes: float, orders: Ints) -> int:
        """The chunks, each cut for all chains."""
        most = most_operations() // orders.size
        if nbytes > self.chunk * most:
            raise InputError(
                f"dp: chunk={self.chunk:g} cuts {format_bytes(nbytes)} into more than {most} chunks"
            )
        return max(1, ceil(nbytes / self.chunk)) * len(orders)


class _ReplicaSteps(Trainer):
    """The steps of one run. Each worker waits for `start` before it goes on. That is the end of the
    step before, or of a restart, or the loss."""

    def __init__(
        self,
        options: DataParallel,
        model: Model,
        setting: Setting,
        replicate: Schedule,
        reduce: Schedule,
    ) -> None:
        super().__init__(model, setting, LANES)
        self.options, self.replicate, self.reduce = options, replicate, reduce
        self.start = self._moment(Label(kinds.BEGIN), np.zeros(0, dtype=np.int32))
        self._outputs: list[tuple[int, float]] = []

    def step(self) -> None:
        """Scatter, replicate, forward, gather, backward, reduce, update; where a worker fails,
        forward and restart."""
        inputs = self.has_input
        peers = [rank for rank in np.flatnonzero(inputs).tolist() if rank]
        batch = self._scatter(
            Label(kinds.SCATTER, "inputs"), peers if self.options.scatter else [], self.model.inputs
        )
        # Replicas count elsewhere: every worker is taken to hold the parameters anyway.
        replicated = self.collective(
            Label(kinds.REPLICATE), self.replicate, batch, memory="elsewhere"
        )
        self._forward(inputs, replicated)
        if self.failed():
            self.start = self.tail
            return
        nbytes = len(peers) * self.model.outputs
        self._outputs.append((int(self.tail[0]), nbytes))
        self._gather(peers)
        self._backward(self._scatter(Label(kinds.SCATTER, "gradients"), peers, self.model.outputs))
        self._outputs.append((int(self.tail[0]), -nbytes))
        summed = Label(kinds.SUM_UP, "gradients")
        arrived = self._moment(summed, self.tail)
        self._update(self.collective(summed, self.reduce, arrived, memory="held"))
        self.end()

    def stored(self) -> HeldBytes:
        """The outputs of the others, which the first device holds."""
        task, nbytes = zip(*self._outputs, strict=True) if self._outputs else ((), ())
        outputs = np.array(nbytes, np.float64)
        return HeldBytes(np.array(task, np.int32), outputs, outputs)

    def _moment(self, label: Label, after: Ints) -> Ints:
        """What all workers wait for: until all of `after` are done."""
        moment = self.compute(label, 0.0, after[None], lane=COMMUNICATION, ranks=self.ranks[:1])
        return np.repeat(moment, len(self.ranks))

    def _scatter(self, label: Label, targets: list[int], nbytes: float) -> Ints:
        """The first sends `nbytes` to each of `others`; returns with what each has them, and the
        first has sent all."""
        arrival = self.start.copy()
        for target in targets:
            arrival[[0, target]] = self.message(label, (0, target), nbytes, arrival[:1])
        return arrival

    def _gather(self, sources: list[int]) -> None:
        """Each of `others` sends its outputs to the first, when both have theirs: that has the
        loss."""
        label, last = Label(kinds.GATHER_OUTPUTS), self.tail[:1]
        for source in sources:
            both = np.append(last, self.tail[source])
            last = self.message(label, (source, 0), self.model.outputs, both)
        self.start = np.repeat(last, len(self.ranks))

    def _forward(self, inputs: Flags, replicated: Ints) -> None:
        launched = self.start
        for layer in self.model.layers:
            launched = self._launch(layer, inputs, launched)
            self.forward(layer, replicated, launched)

    def _launch(self, layer: Layer, inputs: Flags, before: Ints) -> Ints:
        threads, seconds = np.zeros_like(self.ranks), np.where(inputs, self.options.launch, 0.0)
        label = Label(kinds.LAUNCH, layer.name)
        return self.compute(label, seconds, before, lane=INTERPRETER, ranks=threads)

    def _backward(self, arrived: Ints) -> None:
        for layer in reversed(self.model.layers):
            self.backward(layer, arrived)

    def _update(self, reduced: Ints) -> None:
        """The optimizer of the first: the step ends with it, and elsewhere with the reduction."""
        seconds = float(self.model.optimizer_of(len(self.ranks))[0] * self.factor[0])
        self.tail = reduced[:1]
        updated = self.compute(Label(kinds.OPTIMIZER), seconds, ranks=self.ranks[:1])
        self.start = np.repeat(updated, len(self.ranks))
        self.tail = np.append(updated, reduced[1:])


def _described(replicate: Schedule, chains: int) -> tuple[str, ...]:
    if replicate.ranks == 1:
        return ("one device: nothing to replicate",)
    chunks = replicate.buffer // chains
    chunk_count, ways = f"{chunks} chunk{'s'[: chunks - 1]}", f"{chains} chain{'s'[: chains - 1]}"
    return (f"a replica is {format_bytes(replicate.nbytes_total)}: {chunk_count}, down {ways}",)


STRATEGIES = {"dp": DataParallel}
