"""The options of `simctl measure`."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated

import typer

from experiments.cli.completion import backend_names, completer, measured_names
from topologies.errors import InputError

if TYPE_CHECKING:
    from experiments.commands.measure import Request
    from experiments.measure.points import MeasurementPlan

MOST = 1024
"""Processes on one machine."""
LONGEST = 86_400.0
"""Seconds of --budget and --timeout, at most."""

Backend = Annotated[
    str,
    typer.Option(
        help="gloo, nccl or mpi, of torch.distributed.", autocompletion=completer(backend_names)
    ),
]
ProcessCounts = Annotated[
    str | None,
    typer.Option(
        help="Ranks to start here: 4, or 2,4 in turn.  [default: those of torchrun or srun]"
    ),
]
Collectives = Annotated[
    str,
    typer.Option(
        help="The library's (all_reduce, ..., barrier) and ours over isend and irecv (ring, "
        "tree, ...).",
        autocompletion=completer(measured_names),
    ),
]
Sizes = Annotated[str, typer.Option(help="V as nccl-tests counts: 64MiB,1GiB or a range.")]
Device = Annotated[
    str | None,
    typer.Option(help="cpu or cuda.  [default: cuda with nccl, cpu else]", show_default=False),
]
Dtype = Annotated[str, typer.Option(help="float32, float64, float16, bfloat16, int32 or int64.")]
Repetitions = Annotated[int, typer.Option(help="At most this many repetitions of each point.")]
Warmup = Annotated[int, typer.Option(help="Repetitions that run first and do not count.")]
Budget = Annotated[
    str, typer.Option(help="Time for the repetitions of a point; there are 3 at least.")
]
Timeout = Annotated[
    str, typer.Option(help="How long a rank waits for the others before it gives up.")
]
Init = Annotated[
    str | None, typer.Option(help="Where ranks meet: env://, tcp://HOST:PORT or file:///PATH.")
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the numbers that are sent and checked.")]


@dataclass(frozen=True)
class MeasuringOptions:
    """What to measure, as the user writes it."""

    backend: Backend = "gloo"
    nproc: ProcessCounts = None
    collectives: Collectives = "all_reduce"
    sizes: Sizes = "4KiB..64MiB:x4"
    device: Device = None
    dtype: Dtype = "float32"
    repetitions: Repetitions = 100
    warmup: Warmup = 2
    budget: Budget = "1s"
    timeout: Timeout = "60s"
    init: Init = None
    seed: Seed = 0

    def request(self) -> Request:
        """What to measure. Only --nproc is parsed now: `plan` parses the other options."""
        from experiments.commands.measure import Request
        from topologies.units import parse_counts

        counts = [] if self.nproc is None else parse_counts(self.nproc)
        if not all(1 <= count <= MOST for count in counts):
            raise InputError(f"--nproc {self.nproc}: 1 to {MOST} processes")
        options = {name: value for name, value in asdict(self).items() if value is not None}
        return Request(counts, self.plan, options)

    def plan(self, ranks: int) -> MeasurementPlan:
        """The plan for a number of ranks. Raises InputError for options that have no meaning."""
        from experiments.measure.points import points

        names, sizes, plan = self._values
        return replace(plan, ranks=ranks, points=points(names, sizes, ranks, self.dtype))

    @cached_property
    def _values(self) -> tuple[list[str], list[float], MeasurementPlan]:
        """The collectives, the sizes, and a plan without ranks and points."""
        from experiments.measure.points import (
            BACKENDS,
            DEVICES,
            ELEMENT_BYTES,
            MeasurementPlan,
            parse_names,
        )
        from topologies.units import parse_sizes

        device = self.device or ("cuda" if self.backend == "nccl" else "cpu")
        for name, value, choices in (
            ("backend", self.backend, BACKENDS),
            ("device", device, DEVICES),
            ("dtype", self.dtype, tuple(ELEMENT_BYTES)),
        ):
            if value not in choices:
                raise InputError(f"{name} {value[:40]!r}: it is one of {', '.join(choices)}")
        if self.backend == "nccl" and device == "cpu":
            raise InputError(
                "backend nccl on cpu: it works on GPUs alone, take --device cuda or --backend gloo"
            )
        if self.repetitions < 1 or self.warmup < 1:
            raise InputError(f"repetitions = {self.repetitions}, warmup = {self.warmup}: 1 or more")
        plan = MeasurementPlan(
            self.backend,
            device,
            self.dtype,
            0,
            self.init or "",
            (),
            self.repetitions,
            self.warmup,
            _seconds("budget", self.budget),
            _seconds("timeout", self.timeout),
            self.seed,
        )
        return parse_names(self.collectives), parse_sizes(self.sizes), plan


def _seconds(name: str, text: str) -> float:
    from topologies.units import parse_seconds

    value = parse_seconds(text)
    if not 0.1 <= value <= LONGEST:
        raise InputError(f"{name} {text!r}: 100ms to {LONGEST:.0f}s")
    return value
