"""One model from the traces of all ranks of a job: every layer has the times of each rank."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from itertools import pairwise, takewhile
from pathlib import Path
from statistics import fmean

from experiments.models.model_files import read_ranked
from simulator.training.model import Layer, Model
from topologies.errors import InputError

MOST_FILES = 4096
ENDINGS = (".json", ".json.gz")
_WILDCARD = re.compile(r"[*?\[]")
_TIMES = ("forward", "backward", "forwards", "backwards")
_ALIKE = ("batch", "dtype", "gradient_dtype")


def exists(path: str) -> bool:
    """Whether there is a file or a folder at `path`."""
    try:
        return bool(path) and Path(path).exists()
    except (OSError, ValueError):
        return False


def is_path(text: str) -> bool:
    """Whether `text` is the name of a file rather than that of a model."""
    return exists(text) or bool(re.search(r"[/.]", text))


def paths_in(text: str) -> list[Path]:
    """The traces of a job, one for each rank, that a folder, a pattern or a list names, by name,
    rank10 after rank9.

    The list is empty if `text` is none of these. Raises InputError if there are no traces.
    """
    if exists(text):
        return _traces_in(Path(text)) if Path(text).is_dir() else []
    if _WILDCARD.search(text):
        return _matching(text)
    parts = [part.strip() for part in text.split(",")]
    return [*map(Path, parts)] if len(parts) > 1 and all(map(is_path, parts)) else []


def _traces_in(folder: Path) -> list[Path]:
    try:
        traces = [path for path in folder.iterdir() if path.name.endswith(ENDINGS)]
    except OSError as error:
        raise InputError(f"cannot read {str(folder)[:200]!r}: {error.strerror}") from None
    if not traces:
        raise InputError(
            f"{str(folder)[:200]!r} has no traces: it holds no file that ends in "
            f"{' or '.join(ENDINGS)}"
        )
    return _in_order(traces)


def _matching(pattern: str) -> list[Path]:
    path, shown = Path(pattern), repr(pattern[:200])
    folder = Path(*takewhile(lambda part: not _WILDCARD.search(part), path.parts))
    reason = ""
    try:
        os.scandir(folder).close()
        paths = list(folder.glob(str(path.relative_to(folder))))
    except OSError as error:
        raise InputError(
            f"cannot list the folder of {shown}: {error.strerror}: name each trace of the job"
        ) from None
    except ValueError as error:
        paths, reason = [], f": {error}"
    if not paths:
        raise InputError(
            f"no file matches {shown}{reason}: name the traces of a job, or their folder"
        )
    return _in_order(paths)


def read_all(paths: Sequence[Path]) -> Model:
    """The model that the ranks of one job trained, from one trace of each rank.

    If all traces name their rank, they are sorted by it; else rank r has the r-th of `paths`.
    Raises InputError for a file that is no model, two traces of one rank, and models that differ.
    """
    if len(paths) > MOST_FILES:
        raise InputError(f"{len(paths)} traces: at most {MOST_FILES}")
    traces = [(path, *read_ranked(path)) for path in paths]
    if all(rank is not None for _, _, rank in traces):
        traces.sort(key=lambda trace: trace[2] or 0)
        for (path, _, rank), (next_path, _, next_rank) in pairwise(traces):
            if rank == next_rank:
                raise InputError(
                    f"{path.name} and {next_path.name} are both of rank {rank}: give one trace of "
                    f"each rank"
                )
    names, models = [path.name for path, _, _ in traces], [model for _, model, _ in traces]
    if len(models) == 1:
        return models[0]
    for name, model in zip(names[1:], models[1:], strict=True):
        _check_alike(names[0], models[0], name, model)
    return _merged(names, models)


def _merged(names: Sequence[str], models: Sequence[Model]) -> Model:
    first, optimizers = models[0], tuple(model.optimizer for model in models)
    return replace(
        first,
        name=f"{first.name} and {len(models) - 1} more",
        layers=tuple(map(_layer, zip(*(model.layers for model in models), strict=True))),
        optimizer=fmean(optimizers),
        optimizers=optimizers,
        source=f"{len(models)} files, a rank each, {names[0]} to {names[-1]}; of {names[0]}: "
        f"{first.source}",
    )


def _layer(layers: Sequence[Layer]) -> Layer:
    forwards, backwards = (
        tuple(getattr(layer, field) for layer in layers) for field in ("forward", "backward")
    )
    return replace(
        layers[0],
        forward=fmean(forwards),
        backward=fmean(backwards),
        forwards=forwards,
        backwards=backwards,
    )


def _check_alike(first_name: str, first: Model, second_name: str, second: Model) -> None:
    """Raise InputError unless the models differ in nothing but times."""
    for file, model in ((first_name, first), (second_name, second)):
        if model.ranks:
            raise InputError(f"{file} has times of {model.ranks} ranks already: give it alone")
    for field in _ALIKE:
        value, second_value = getattr(first, field), getattr(second, field)
        if value != second_value:
            raise InputError(
                f"{second_name} has the {field} {second_value}, and {first_name} {value}: "
                "give traces of one job"
            )
    if len(first.layers) != len(second.layers):
        raise InputError(
            f"{second_name} has {len(second.layers)} layers, and {first_name} {len(first.layers)}: "
            "give traces of one job"
        )
    compared = [item.name for item in fields(Layer) if item.name not in _TIMES]
    for number, (layer, twin) in enumerate(zip(first.layers, second.layers, strict=True)):
        for field in compared:
            if getattr(layer, field) != getattr(twin, field):
                raise InputError(
                    f"layer {number} of {second_name} is {twin.name}, of {first_name} "
                    f"{layer.name}, with another {field}: give traces of one job"
                )


def _in_order(paths: Iterable[Path]) -> list[Path]:
    """The paths by name; numbers in a name count by their value."""
    return sorted(
        paths,
        key=lambda path: [
            (int(part), "") if part.isdecimal() else (-1, part)
            for part in re.split(r"(\d+)", path.name)
        ],
    )
