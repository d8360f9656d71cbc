"""The options of a training job, and of a model that is timed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from experiments.options.completion import complete_models, complete_strategies
from experiments.options.options import AlgorithmFile, Options, argument, option
from experiments.options.profile_options import SimulationOptions
from topologies.errors import InputError
from topologies.option_text import options_of, parse_option
from topologies.units import parse_counts

if TYPE_CHECKING:
    from experiments.output import Value
    from experiments.training.job import Job
    from experiments.training.strategy_options import SweptValue
    from experiments.training.training_grid import TrainingGrid
    from simulator.profile import Profile
    from simulator.training import Strategy

MOST_WORKERS = 16_384
DDP = "ddp"
"""The strategy if the user names none."""

CONDITIONS = ("straggler", "noise", "slow_link", "fail")
"""Options that make ranks differ."""


@dataclass(frozen=True, kw_only=True)
class StepOptions(Options):
    """How many steps run, and what makes their ranks differ."""

    bucket: str | None = option(
        "The largest size of a DDP bucket; 0: one bucket for each parameter.  [default: 25MiB]"
    )
    steps: int | None = option(
        "Steps, or updates of each worker.  [default: 1; for asgd and ssp 20; for "
        "local_sgd its option every]",
        min=1,
        max=100_000,
    )
    straggler: str | None = option("Slow ranks and their factors: 3:1.5,5:2.")
    noise: str | None = option(
        "Random times of each step: lognormal:0.1, or a file with one time on each line."
    )
    slow_link: str | None = option(
        "A rank (all its links) or a link, and the share of its bandwidth that is left: 3:0.5."
    )
    fail: str | None = option(
        "A worker that fails: rank=3,step=5,restart=30s,timeout=10s,checkpoint=4."
    )


@dataclass(frozen=True)
class TrainingOptions(StepOptions):
    """A training job as the user writes it."""

    model: str = option(
        "NAME or FILE, with options: resnet50, bert_large:batch=16,device=a100, "
        "profile.yaml, config.json; or the traces of a job, a rank each: "
        "rank0.json,rank1.json or their folder. See `simctl list models`.",
        default="resnet50",
        autocompletion=complete_models,
    )
    strategy: str | None = option(
        "NAME with options: ddp, ddp:algo=rings,overlap=no, asgd:server=cpu. Several are "
        "compared: ddp,ssgd,asgd. See `simctl list strategies`.  [default of train: "
        "ddp]",
        autocompletion=complete_strategies,
        repeats=True,
    )
    algo_file: AlgorithmFile = None
    p: str | None = option(
        "Numbers of workers: 8, 1..256:x2.  [default: one for each trace; all GPUs of a "
        "machine; 8 of a shape]",
        "--p",
        "--gpus",
    )
    sweep: str | None = option(
        "An option and its values: bucket=1MiB..200MiB:x2, overlap=yes,no, batch=32,64; "
        "of plans a key: micro=1,2,4."
    )
    batches: str | None = option(
        "Ranks that have input for fewer steps: 3:8 is 8 steps for rank 3."
    )
    epochs: str | None = option(
        "Time of epochs and of the training: samples=1281167,count=90, pause=10s beside "
        "the steps of each, such as validation and the start of data loaders, and rate=12000 "
        "samples a second that the input pipeline reads, for all workers together."
    )
    seed: int = option("Seed of --noise and --learn.", default=0)
    detail: Literal["auto", "transfers"] = option(
        "auto: in large runs, time each collective as a whole, with nearly the same "
        "results. transfers of a plan are those of links alone.",
        default="auto",
    )
    learn: str | None = option(
        "Train a small network on digits during the run: softmax or mlp, with options: "
        "mlp:rate=0.5,batch=20,epochs=10,hidden=32,target=0.95."
    )

    def request(self, simulation: SimulationOptions) -> TrainingGrid:
        """The runs of the options, under a library."""
        from experiments.training.strategy_options import SweptValue, names_in
        from experiments.training.training_grid import TrainingGrid

        chosen, profile = simulation.chosen
        options = self
        if profile is not None:
            options = replace(self, model=_on_devices_of(simulation.profile or "", self.model))
        names = names_in(self.strategy or DDP) or [self.strategy or DDP]
        if len(names) > 1:
            example = "--strategy ddp:bucket=1MiB,ddp:bucket=25MiB,asgd"
            why = f" of several strategies: write each with its options, like {example}"
            self.refuse(("sweep",), why)
        grids = {name: replace(options, strategy=name)._grid(chosen, profile) for name in names}
        grid = grids[names[0]]
        if len(names) == 1:
            return grid
        jobs = {name: replace(each.job, name=name) for name, each in grids.items()}
        ranks = min((each.ranks for each in grids.values()), key=min)
        resolved = {
            **grid.resolved,
            "strategy": self.strategy or DDP,
            "steps": ",".join(str(job.steps) for job in jobs.values()),
            "p": ",".join(map(str, ranks)),
        }
        variants = [(SweptValue(name, name, name), job) for name, job in jobs.items()]
        return TrainingGrid("strategy", variants, ranks, resolved)

    def with_sweep(self) -> TrainingOptions:
        """The options beside plans that are swept over a key: strategies with that
        option have each of its values, others none."""
        from experiments.training.strategy_options import names_in
        from simulator.training import find

        key, _, values = (self.sweep or "").partition("=")
        names = [
            _with_option(name, f"{key}={value}")
            if key in options_of(find(name.partition(":")[0])())
            else name
            for name in names_in(self.strategy or DDP)
            for value in listed(values) or [""]
        ]
        return replace(self, strategy="; ".join(dict.fromkeys(names)), sweep=None)

    def _grid(self, simulation: SimulationOptions, profile: Profile | None) -> TrainingGrid:
        from experiments.training.training_grid import TrainingGrid

        model = _on_devices_of(simulation.blueprint.name, self.model)
        job = self._job(model, simulation, profile)
        ranks = self._ranks(job)
        resolved = {
            "model": model,
            "model_source": job.model.source,
            "strategy": self.strategy,
            **{key: _stored(job.strategy, key) for key in options_of(job.strategy)},
            "steps": job.steps,
            "p": ",".join(map(str, ranks)),
        }
        swept = self.sweep.partition("=")[0] if self.sweep else ""
        return TrainingGrid(swept, self._variants(job, model), ranks, resolved)

    def _job(self, model: str, simulation: SimulationOptions, profile: Profile | None) -> Job:
        from experiments.models import model_catalogue
        from experiments.options import condition_parser
        from experiments.training import strategy_options
        from experiments.training.job import Job

        text = self.strategy or DDP
        name = text.partition(":")[0]
        strategy = strategy_options.find(text)
        if "bucket=" in text:
            why = ": --strategy names a bucket already, leave out one of them"
            self.refuse(("bucket",), why)
        if self.bucket is not None:
            nbytes = parse_option(strategy, name, "bucket", self.bucket)
            strategy = strategy_options.with_values(strategy, bucket=nbytes)
        if self.algo_file is not None:
            strategy = strategy_options.with_algorithm(strategy, name, text, self.algo_file)
        return Job(
            model_catalogue.find(model),
            name,
            strategy,
            replace(simulation.blueprint, force=simulation.force),
            simulation.rules,
            self._steps(strategy),
            condition_parser.parse(self.straggler, self.noise, self.fail, self.batches, self.seed),
            condition_parser.slow_links(self.slow_link, profile),
            self.detail,
            condition_parser.parse_epochs(self.epochs),
            profile,
        )

    @cached_property
    def counts(self) -> list[int]:
        """The numbers of GPUs of --gpus; none if the machine says how many there are."""
        return [] if self.p is None else parse_counts(self.p)

    def _ranks(self, job: Job) -> list[int]:
        """Numbers of workers; by default as many as the model has ranks, else all GPUs of the
        machine, 8 of a shape."""
        if self.p is None:
            return [job.model.ranks or _all_workers(job)]
        if not 1 <= min(self.counts) <= max(self.counts) <= MOST_WORKERS:
            raise InputError(f"--p {self.p[:40]}: 1 to {MOST_WORKERS} workers")
        return self.counts

    def _variants(self, job: Job, model: str) -> list[tuple[SweptValue | None, Job]]:
        """The job with each value of `--sweep`."""
        from experiments.models import model_catalogue
        from experiments.training.strategy_options import SweptValue, swept_values, with_values

        if self.sweep is None:
            return [(None, job)]
        key, equals, text = self.sweep.partition("=")
        if not equals or not text:
            raise InputError(
                f"--sweep {self.sweep[:60]!r}: write an option and its values, like "
                f"bucket=1MiB..200MiB:x2"
            )
        entry = model_catalogue.choose(self.model)
        if key not in options_of(job.strategy) and entry and key in entry.options:
            base = self.model if key == "device" else model
            return [
                (
                    SweptValue(each, entry.parse(f"{key}={each}")[key], each),
                    replace(job, model=model_catalogue.find(_with_option(base, f"{key}={each}"))),
                )
                for each in listed(text)
            ]
        changed = [
            (value, with_values(job.strategy, **{key: value.value}))
            for value in swept_values(job.strategy, job.name, key, text)
        ]
        if not changed:
            raise InputError(f"--sweep {self.sweep[:60]!r}: there is no value")
        return [
            (value, replace(job, strategy=strategy, steps=self._steps(strategy)))
            for value, strategy in changed
        ]

    def _steps(self, strategy: Strategy) -> int:
        return strategy.usual_steps if self.steps is None else self.steps


@dataclass(frozen=True)
class PlanOptions(TrainingOptions):
    """Plans of parallel training as the user writes them."""

    plan: str | None = argument(
        "PLAN",
        "dp=8,tp=4,pp=2,micro=1,batch=512,zero=1, and cp, ep, schedule, v, sp, recompute, "
        "overlap and more; or FILE of Megatron or torchtitan, also FILE,micro=2. Several are "
        "compared, also with --strategy. auto, or auto,tp=8: find the fastest plans.",
        repeats=True,
    )
    batch: int | None = option("Sequences of a step.  [default of auto: 4 a GPU]", min=1)
    tokens: str | None = option("Tokens of the training, for its days and GPU hours: 15T, 300B.")
    like: str | None = option(
        "Give keys that the plan leaves out the values of megatron, torchtitan or "
        "deepspeed.  [default: the kernels of megatron where tp or pp is above 1, else of "
        "torchtitan]",
        metavar="FRAMEWORK",
    )
    calibrate_compute: str | None = option(
        "Fit the times of the device to measured steps on the machine, a CSV "
        "with model, plan and seconds.",
        metavar="FILE",
    )


def _stored(strategy: Strategy, option: str) -> Value:
    value = getattr(strategy, option)
    name: Value = getattr(value, "name", value)
    return name


def _on_devices_of(machine: str, model: str) -> str:
    """The model, on the machine's devices unless the user names some."""
    from experiments.models import model_catalogue
    from experiments.models.accelerators import DEVICES

    device = DEVICES.get(machine)
    entry = model_catalogue.choose(model) if device else None
    if entry is None or "device" in entry.choices:
        return model
    return _with_option(model, f"device={device}")


def _all_workers(job: Job) -> int:
    """All GPUs of the machine but those of servers; 8 of a shape."""
    machine, strategy = job.machine, job.strategy
    if machine.kind == "shape":
        return machine.whole().ranks - (strategy.servers(1) if "dims" in machine.options else 0)
    servers = strategy.servers(1) if strategy.server_kind == "gpu" else 0
    return max(1, machine.whole().ranks - servers)


def _with_option(model: str, option: str) -> str:
    options = model.rpartition(":")[2] if ":" in model else ""
    return f"{model}{'' if model.endswith(':') else ',' if '=' in options else ':'}{option}"


def listed(text: str) -> list[str]:
    from experiments.training.strategy_options import split

    return [str(count) for count in parse_counts(text)] if ".." in text else split(text)
