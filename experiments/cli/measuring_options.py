"""The options of `simctl measure`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from experiments.cli.completion import backend_names, completer, measured_names

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
Warmup = Annotated[int, typer.Option(help="Repetitions before them that do not count.")]
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
