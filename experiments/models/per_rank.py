"""One model from the traces of all ranks of a job: every layer has the times of each rank."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

from experiments.models.model_files import read_ranked
from simulator.training.model import Layer, Model
from topologies.errors import InputError

MOST_FILES = 4096
_TIMES = ("forward", "backward", "forwards", "backwards")


def read_all(paths: Sequence[Path]) -> Model:
    """The model that the ranks of one job trained, from one trace of each rank.

    If all traces name their rank, they are sorted by it; else rank r has the r-th of `paths`.
    Raises InputError for a file that is no model, two traces of one rank, and models that differ.
    """
    if len(paths) > MOST_FILES:
        raise InputError(f"{len(paths)} traces: at most {MOST_FILES}")
    traces = [(path.name, *read_ranked(path)) for path in paths]
    if all(rank is not None for _, _, rank in traces):
        traces.sort(key=lambda trace: trace[2] or 0)
        for (name, _, rank), (next_name, _, next_rank) in pairwise(traces):
            if rank == next_rank:
                raise InputError(
                    f"{name} and {next_name} are both of rank {rank}: give one trace of each rank"
                )
    name, first, _ = traces[0]
    if len(traces) == 1:
        return first
    for other, model, _ in traces:
        if model.ranks:
            raise InputError(f"{other} has times of {model.ranks} ranks already: give it alone")
        for (value, about), (expected, usual) in zip(_facts(model), _facts(first), strict=False):
            if value != expected:
                raise InputError(
                    f"the {about} of {other} differs from the {usual} of {name}: give traces of "
                    f"one job"
                )
    models = [model for _, model, _ in traces]
    layers = zip(*(model.layers for model in models), strict=True)
    return replace(
        first,
        name=f"{first.name} and {len(models) - 1} more",
        layers=tuple(
            replace(each[0], **_times(each, "forward"), **_times(each, "backward"))
            for each in layers
        ),
        source=f"{len(models)} files, a rank each, {name} to {traces[-1][0]}; of {name}: "
        f"{first.source}",
        **_times(models, "optimizer"),
    )


def _times(owners: Sequence[Layer] | Sequence[Model], quantity: str) -> dict[str, Any]:
    """The mean of a time over ranks, and the time of each rank."""
    values = tuple(getattr(owner, quantity) for owner in owners)
    return {quantity: fmean(values), f"{quantity}s": values}


def _facts(model: Model) -> Iterator[tuple[object, str]]:
    """What is equal in the models of all ranks of a job, each with its name."""
    for name in ("batch", "dtype", "gradient_dtype"):
        yield getattr(model, name), f"{name} ({getattr(model, name)})"
    yield len(model.layers), f"number of layers ({len(model.layers)})"
    for number, layer in enumerate(model.layers):
        for field in fields(Layer):
            if field.name not in _TIMES:
                yield getattr(layer, field.name), f"{field.name} of layer {number} ({layer.name})"
