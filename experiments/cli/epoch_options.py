"""The options of epochs and of the input pipeline of a training job."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Annotated

import typer

from topologies.errors import InputError

if TYPE_CHECKING:
    from experiments.training.epochs import Epochs

EpochCount = Annotated[
    int | None,
    typer.Option("--epochs", min=1, max=1_000_000, help="Epochs of the training.  [default: 1]"),
]
Dataset = Annotated[
    int | None,
    typer.Option(min=1, max=10**15, help="Samples of an epoch: print the time of an epoch."),
]
EpochTime = Annotated[
    str | None,
    typer.Option(
        help="Extra time of each epoch, such as validation and the start of data loaders: 10s.  "
        "[default: 0s]"
    ),
]
InputRate = Annotated[
    str | None,
    typer.Option(
        help="Samples a second that the input pipeline reads, for all workers together: 12000."
    ),
]


def parse_epochs(
    number: int | None, dataset: int | None, pause: str | None, input_rate: str | None
) -> Epochs:
    """The epochs that the user asks for."""
    from experiments.training.epochs import Epochs
    from topologies.units import parse_number, parse_seconds

    for option, value in (("--epochs", number), ("--epoch-time", pause)):
        if value is not None and dataset is None:
            raise InputError(
                f"{option} {str(value)[:40]}: say how many samples an epoch has, like --dataset "
                f"1281167"
            )
    rate = inf if input_rate is None else parse_number(input_rate)
    if rate <= 0:
        raise InputError(f"--input-rate {input_rate}: more than 0 samples a second, like 12000")
    return Epochs(number or 1, dataset, parse_seconds(pause) if pause else 0.0, rate)
