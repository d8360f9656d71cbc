"""Local SGD: workers train without communication, and average their parameters every few steps.

After Stich, Local SGD Converges Fast and Communicates Little, ICLR 2019.
"""

from __future__ import annotations

from dataclasses import dataclass

from simulator.collectives import Algorithm, collective
from simulator.steps.kinds import ALL_REDUCE, BACKWARD, FORWARD, Label
from simulator.training.communicator import Communicator, find_all_reduce
from simulator.training.model import Model
from simulator.training.plan import Plan, Setting
from simulator.training.strategy import Strategy, option
from simulator.training.trainer import Trainer
from topologies.errors import InputError

MOST_STEPS = 10_000
"""The most steps from one average to the next."""


@dataclass(frozen=True)
class LocalSGD(Strategy):
    """Every worker takes `every` local steps. Then all workers average their parameters and wait
    for the result.

    They also average after the last step, so that a run ends with one model.
    """

    promise = collective.ALL_REDUCE

    every: int = option(8, "local steps from one average to the next")
    algo: str | Algorithm = option("ring", "all-reduce of the parameters, like rings")

    def __post_init__(self) -> None:
        if not 1 <= self.every <= MOST_STEPS:
            raise InputError(f"every is {self.every}: it is 1 to {MOST_STEPS}")

    @property
    def usual_steps(self) -> int:
        """From one average to the next."""
        return self.every

    def servers(self, ranks: int) -> int:
        """Devices that are needed in addition to those of the workers."""
        return find_all_reduce(self.algo).servers

    def plan(self, model: Model, setting: Setting) -> Plan:
        """The steps of `setting` as a schedule."""
        communicator = Communicator(setting, self.algo, alike=setting.alike(model))
        lanes = "compute", "communication"
        trainer = Trainer(model, setting, lanes, communicator, every=self.every)
        averaged, averages, workers = None, 0, len(trainer.ranks)
        for attempt in trainer.attempts:
            trainer.compute(Label(FORWARD), model.forward_of(workers) * trainer.factor, averaged)
            averaged = None
            if trainer.failed():
                continue
            trainer.compute(Label(BACKWARD), model.backward_of(workers) * trainer.factor)
            trainer.optimize()
            if self.averages(attempt.step, setting.steps):
                averaged = trainer.collective(
                    Label(ALL_REDUCE, "parameters"),
                    communicator.large(model.parameters),
                    trainer.tail,
                    memory="held",
                )
                averages += 1
            trainer.end(averaged)
        words = f"{averages} average{'' if averages == 1 else 's'} of the parameters"
        return trainer.plan(words=(words, *communicator.words))

    def averages(self, step: int, steps: int) -> bool:
        """Whether all average after `step`, counted from 0."""
        return (step + 1) % self.every == 0 or step == steps - 1


STRATEGIES = {"local_sgd": LocalSGD}
