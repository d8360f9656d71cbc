"""The options of a training job, and of a model that is timed."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from experiments.cli.completion import (
    completer,
    model_names,
    model_options,
    strategy_names,
    strategy_options,
)
from experiments.cli.epoch_options import (
    Dataset,
    EpochCount,
    EpochTime,
    InputRate,
    parse_epochs,
)
from experiments.cli.machine_options import MachineOptions, RuleOptions
from experiments.cli.options import AlgorithmFile, DetailName
from experiments.cli.profile_options import ProfileOptions
from topologies.errors import InputError

if TYPE_CHECKING:
    from experiments.commands.profile_model import Shape
    from experiments.commands.train import Request
    from experiments.output import Value
    from experiments.training.job import Job
    from experiments.training.strategy_options import SweptValue
    from simulator.training import Strategy

MOST_WORKERS = 16_384
INPUT_TYPES = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "bool")

ModelText = Annotated[
    str,
    typer.Option(
        help="NAME or FILE, with options: resnet50, bert_large:batch=16,device=a100, "
        "profile.yaml, config.json; or the traces of a job, a rank each: "
        "rank0.json,rank1.json or their folder. See `simctl models`.",
        autocompletion=completer(model_names, model_options),
    ),
]
StrategyText = Annotated[
    str,
    typer.Option(
        help="NAME with options: ddp, ddp:algo=rings,overlap=no, asgd:server=cpu. Several are "
        "compared: ddp,ssgd,asgd. See `simctl strategies`.",
        autocompletion=completer(strategy_names, strategy_options),
    ),
]
Workers = Annotated[
    str | None,
    typer.Option(
        "--p",
        "--gpus",
        help="Numbers of workers: 8, 1..256:x2.  [default: one for each trace; all GPUs of a "
        "machine; 8 of a shape]",
    ),
]
Bucket = Annotated[
    str | None,
    typer.Option(
        help="The largest size of a DDP bucket; 0: one bucket for each parameter.  [default: 25MiB]"
    ),
]
Steps = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=100_000,
        help="Steps, or updates of each worker.  [default: 1; for asgd and ssp 20; for local_sgd "
        "its option every]",
    ),
]
Sweep = Annotated[
    str | None,
    typer.Option(
        help="An option and its values: bucket=1MiB..200MiB:x2, overlap=yes,no, batch=32,64."
    ),
]
Straggler = Annotated[str | None, typer.Option(help="Slow ranks and their factors: 3:1.5,5:2.")]
Noise = Annotated[
    str | None,
    typer.Option(
        help="Random times of each step: lognormal:0.1, or a file with one time on each line."
    ),
]
SlowLink = Annotated[
    str | None,
    typer.Option(
        help="A rank (all its links) or a link, and the share of its bandwidth that is left: 3:0.5."
    ),
]
Fail = Annotated[
    str | None,
    typer.Option(help="A worker that fails: rank=3,step=5,restart=30s,timeout=10s,checkpoint=4."),
]
Batches = Annotated[
    str | None,
    typer.Option(help="Ranks that have input for fewer steps: 3:8 is 8 steps for rank 3."),
]
Detail = Annotated[
    DetailName,
    typer.Option(help="auto: in large runs, simulate equal collectives only once. Same results."),
]
Seed = Annotated[int, typer.Option(help="Seed of --noise and --learn.")]
Learn = Annotated[
    str | None,
    typer.Option(
        help="Train a small network on digits during the run: softmax or mlp, with options: "
        "mlp:rate=0.5,batch=20,epochs=10,hidden=32,target=0.95. --plan then takes several plans: "
        '"dp=8; pp=2".'
    ),
]
PlanText = Annotated[
    str | None,
    typer.Option(
        help="Train a transformer in parallel: dp=8,tp=4,pp=2,micro=1,batch=512,zero=1, and "
        "cp, ep, schedule, v, sp, recompute, overlap and more. auto, or auto,tp=8: find "
        "the fastest plans.",
    ),
]
Batch = Annotated[
    int | None,
    typer.Option(min=1, help="With --plan: sequences of a step.  [default of auto: 4 a GPU]"),
]
CalibrateCompute = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="With --plan: fit the times of the device to measured steps on the machine, a CSV "
        "with model, plan and seconds.",
    ),
]


@dataclass(frozen=True)
class TrainingOptions:
    """A training job as the user writes it."""

    model: ModelText = "resnet50"
    strategy: StrategyText = "ddp"
    algo_file: AlgorithmFile = None
    p: Workers = None
    bucket: Bucket = None
    steps: Steps = None
    sweep: Sweep = None
    straggler: Straggler = None
    noise: Noise = None
    slow_link: SlowLink = None
    fail: Fail = None
    batches: Batches = None
    epochs: EpochCount = None
    dataset: Dataset = None
    epoch_time: EpochTime = None
    input_rate: InputRate = None
    seed: Seed = 0
    detail: Detail = DetailName.auto
    learn: Learn = None
    plan: PlanText = None
    batch: Batch = None
    calibrate_compute: CalibrateCompute = None

    def request(
        self,
        machine: MachineOptions,
        rules: RuleOptions = RuleOptions(),
        profile: ProfileOptions = ProfileOptions(),
    ) -> Request:
        """The values of the options, under a library."""
        machine, calibrated = profile.of(machine, rules)
        if calibrated is not None and self.slow_link is not None:
            raise InputError(
                f"--slow-link {self.slow_link[:40]}: a library has links of its own, leave it out"
            )
        if calibrated is None:
            return self._plain(machine, rules)
        options = replace(self, model=self._on_devices_of(profile.profile or ""))
        return options._plain(machine, rules).under(calibrated, profile.parameters)

    def _plain(self, machine: MachineOptions, rules: RuleOptions) -> Request:
        """The values of the options, on bare links."""
        from experiments.cli.strategy_parser import names_in
        from experiments.commands.train import Request
        from experiments.training.strategy_options import options_of

        strategies = names_in(self.strategy)
        if len(strategies) > 1:
            return self._comparison(strategies, machine, rules)
        if strategies and strategies != [self.strategy]:
            return replace(self, strategy=strategies[0])._plain(machine, rules)
        model = self._on_devices_of(machine.blueprint.name)
        job = self._job(model, machine, rules)
        ranks, variants = self._ranks(job), self._variants(job, model)
        parameters = {
            **{
                k: value
                for k, value in asdict(self).items()
                if k not in ("algo_file", "learn", "plan", "batch", "calibrate_compute")
            },
            **({} if self.algo_file is None else {"algo_file": self.algo_file}),
            "detail": self.detail.value,
            "engine": rules.engine.value,
            "steps": job.steps,
            "model": model,
            "model_source": job.model.source,
            "p": ",".join(map(str, ranks)),
            **{key: _stored(job.strategy, key) for key in options_of(job.strategy)},
            **machine.parameters,
            **rules.parameters,
        }
        swept = self.sweep.partition("=")[0] if self.sweep else ""
        return Request(job, ranks, swept, variants, parameters)

    def _comparison(
        self, strategies: list[str], machine: MachineOptions, rules: RuleOptions
    ) -> Request:
        from experiments.cli.strategy_comparison import comparison

        if self.sweep is not None:
            raise InputError(
                f"--sweep {self.sweep[:40]} of several strategies: write each with its options, "
                f"like --strategy ddp:bucket=1MiB,ddp:bucket=25MiB,asgd"
            )
        requests = {name: replace(self, strategy=name) for name in strategies}
        return comparison(
            self.strategy,
            {name: options._plain(machine, rules) for name, options in requests.items()},
        )

    def _on_devices_of(self, machine: str) -> str:
        """The model, on the machine's devices unless the user names some."""
        from experiments.models import model_catalogue
        from experiments.models.accelerators import DEVICES

        device = DEVICES.get(machine)
        entry = model_catalogue.choose(self.model) if device else None
        if entry is None or "device" in entry.choices:
            return self.model
        return _with_option(self.model, f"device={device}")

    def _job(self, model: str, machine: MachineOptions, rules: RuleOptions) -> Job:
        from experiments.cli import condition_parser, strategy_parser
        from experiments.models import model_catalogue
        from experiments.training.job import Job

        name = self.strategy.partition(":")[0]
        strategy = strategy_parser.find(self.strategy)
        if self.bucket is not None and "bucket=" in self.strategy:
            raise InputError(
                f"--bucket {self.bucket[:40]}: --strategy names a bucket already, leave out one "
                f"of them"
            )
        if self.bucket is not None:
            strategy = strategy_parser.with_option(strategy, name, "bucket", self.bucket)
        if self.algo_file is not None:
            strategy = strategy_parser.with_algorithm(strategy, name, self.strategy, self.algo_file)
        return Job(
            model_catalogue.find(model),
            name,
            strategy,
            replace(machine.blueprint, force=rules.force),
            rules.rules,
            self._steps(strategy),
            condition_parser.parse(self.straggler, self.noise, self.fail, self.batches, self.seed),
            condition_parser.slow_links(self.slow_link),
            self.detail.value,
            parse_epochs(self.epochs, self.dataset, self.epoch_time, self.input_rate),
        )

    def _ranks(self, job: Job) -> list[int]:
        """Numbers of workers; by default as many as the model has ranks, else all GPUs of the
        machine, 8 of a shape."""
        from topologies.units import parse_counts

        if self.p is None:
            return [job.model.ranks or _all_workers(job)]
        counts = parse_counts(self.p)
        if not 1 <= min(counts) <= max(counts) <= MOST_WORKERS:
            raise InputError(f"--p {self.p[:40]}: 1 to {MOST_WORKERS} workers")
        return counts

    def _variants(self, job: Job, model: str) -> list[tuple[SweptValue, Job]]:
        """The job with each value of `--sweep`."""
        from experiments.cli.strategy_parser import values
        from experiments.models import model_catalogue
        from experiments.training.strategy_options import SweptValue, options_of, with_value

        if self.sweep is None:
            return []
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
                    SweptValue(each, entry.parse_option(key, each), each),
                    replace(job, model=model_catalogue.find(_with_option(base, f"{key}={each}"))),
                )
                for each in _listed(text)
            ]
        changed = [
            (value, with_value(job.strategy, key, value.value))
            for value in values(job.strategy, job.name, key, text)
        ]
        if not changed:
            raise InputError(f"--sweep {self.sweep[:60]!r}: there is no value")
        return [
            (value, replace(job, strategy=strategy, steps=self._steps(strategy)))
            for value, strategy in changed
        ]

    def _steps(self, strategy: Strategy) -> int:
        return self.steps or strategy.usual_steps


def _stored(strategy: Strategy, option: str) -> Value:
    """The value of an option as files hold it."""
    value = getattr(strategy, option)
    name: Value = getattr(value, "name", value)
    return name


def _all_workers(job: Job) -> int:
    """All GPUs of the machine but those of servers; 8 of a shape."""
    machine, strategy = job.machine, job.strategy
    if machine.kind == "shape":
        return machine.whole().ranks - (strategy.servers(1) if "dims" in machine.options else 0)
    servers = strategy.servers(1) if strategy.server_kind == "gpu" else 0
    return max(1, machine.whole().ranks - servers)


def _with_option(model: str, option: str) -> str:
    """NAME:option=value,... with one more option."""
    options = model.rpartition(":")[2] if ":" in model else ""
    return f"{model}{'' if model.endswith(':') else ',' if '=' in options else ':'}{option}"


def _listed(text: str) -> list[str]:
    from experiments.cli.strategy_parser import split
    from topologies.units import parse_counts

    return [str(count) for count in parse_counts(text)] if ".." in text else split(text)


@dataclass(frozen=True)
class ModelOptions:
    """How a module is trained while its layers are timed."""

    batch: Annotated[
        int | None, typer.Option(help="Samples.  [default: the first size of the first input]")
    ] = None
    vocab: Annotated[
        int, typer.Option(help="Whole numbers of inputs are random, from 0 to below this.")
    ] = 1000
    device: Annotated[str, typer.Option(help="cpu, cuda, or one of several like cuda:1.")] = "cpu"
    dtype: Annotated[
        str, typer.Option(help="fp32, fp64, fp16 or bf16, of parameters and inputs.")
    ] = "fp32"
    steps: Annotated[
        int, typer.Option(help="Steps that are measured; times are their medians.")
    ] = 5
    optimizer: Annotated[str, typer.Option(help="sgd (with momentum) or adamw.")] = "sgd"


def parse_shapes(text: str) -> list[Shape]:
    """The shapes of inputs, comma-separated, like 8x3x224x224 or 8x128:int64."""
    return [_shape(part.strip()) for part in text.split(",")]


def _shape(text: str) -> Shape:
    from experiments.commands.profile_model import Shape

    match = re.fullmatch(r"([1-9]\d{0,17}(?:x[1-9]\d{0,17})*)(?::(\w+))?", text, re.ASCII)
    if match is None or (match[2] and match[2] not in INPUT_TYPES):
        raise InputError(
            f"input {text!r}: a shape like 8x3x224x224, or 8x128:int64 with one of "
            f"{', '.join(INPUT_TYPES)}"
        )
    return Shape(tuple(map(int, match[1].split("x"))), match[2] or "")
