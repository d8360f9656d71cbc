"""Model profiles in files: our own format as YAML or JSON, to the bit, and PyTorch-profiler traces,
also those of all ranks of a job.

A file of ours has a name, a batch and layers in the order in which they run; quantities are text
with units:

    name: two layers
    batch: 32
    layers:
    - {name: fc, forward: 1.2ms, backward: 2.4ms, parameters: {weight: 9.4MB, bias: 4kB}}
    - {name: head, forward: 300us, backward: 600us, parameters: 1MB}

The other keys are the fields of :class:`simulator.training.model.Model` and
:class:`simulator.training.model.Layer`. A layer whose parameters are one size has one tensor,
called weight. `registration` lists the names of all layers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from itertools import pairwise
from math import inf
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

import yaml
from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer

from experiments.models import kineto
from simulator.training.model import Layer, Model, Tensor
from topologies.errors import InputError, Place, naming, shown, spelling
from topologies.option_text import PARSERS
from topologies.readers.contents import LIMIT, check_text, decoded
from topologies.readers.mistakes import Mistake, Mistakes
from topologies.readers.plain_files import load_json, load_yaml, place_in
from topologies.readers.quantities import bandwidth_text, seconds_text
from topologies.readers.topology_document import Bandwidth, Name, Note, Part, Seconds, quantity

MOST_FILES = 4096
_NONE: Any = ()


def _size_text(nbytes: float) -> str:
    return bandwidth_text(float(nbytes)).removesuffix("/s")


def _tensors_text(tensors: tuple[Tensor, ...]) -> object:
    texts = {tensor.name: _size_text(tensor.nbytes) for tensor in tensors}
    return texts["weight"] if list(texts) == ["weight"] else texts


Count = Annotated[int, Field(ge=0, lt=2**31)]
Size = Annotated[float, quantity(PARSERS["bytes"]), PlainSerializer(_size_text)]
Time = Annotated[Seconds, PlainSerializer(lambda seconds: seconds_text(float(seconds)))]
Times = Annotated[tuple[Time, ...], Field(strict=False)]
Tensors = Annotated[
    dict[Name, Size],
    BeforeValidator(lambda sizes: sizes if isinstance(sizes, dict) else {"weight": sizes}),
    AfterValidator(lambda sizes: tuple(Tensor(name, nbytes) for name, nbytes in sizes.items())),
    PlainSerializer(_tensors_text),
]


class LayerPart(Part):
    """A layer."""

    name: Name
    forward: Time
    backward: Time
    activation: Size = 0.0
    tensors: Annotated[Tensors, Field(alias="parameters")] = _NONE
    buffers: Size = 0.0
    channels: Count = 0
    arrival: Annotated[tuple[Count, ...], Field(strict=False)] = ()
    forwards: Times = ()
    backwards: Times = ()


class ModelPart(Part):
    """A model."""

    name: Name
    batch: Annotated[int, Field(ge=1, lt=2**31)]
    dtype: str = "fp32"
    gradient_dtype: str = "fp32"
    optimizer: Time = 0.0
    state: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.0
    inputs: Size = 0.0
    outputs: Size = 0.0
    memory_bandwidth: Annotated[Bandwidth, PlainSerializer(bandwidth_text)] = inf
    multiprocessors: Count = 0
    device: Name = "unknown"
    source: Note = "unknown"
    registration: list[Name] = Field([])
    optimizers: Times = ()
    layers: Annotated[list[LayerPart], Field(max_length=100_000)]


def read(path: Path) -> Model:
    """The model that `path` describes: our YAML or JSON, or a Kineto trace (.json or .json.gz).

    Raises InputError, in one line that names file and place, for what is none of these.
    """
    return _read(path)[0]


def _read(path: Path) -> tuple[Model, int | None]:
    """As :func:`read`, and the rank that a trace says it is of."""
    data, name = kineto.contents(path), path.name
    begins_json = data.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{")
    if begins_json and b'"traceEvents"' in data:
        return kineto.parse(data, name)
    if len(data) > LIMIT:
        raise InputError(
            f"{name} has {len(data)} bytes: a model has at most {LIMIT}, and a trace has "
            f"traceEvents"
        )
    return parse(decoded(data, name), name), None


def read_all(paths: Sequence[Path]) -> Model:
    """The model that the ranks of one job trained, from one trace of each rank.

    If all traces name their rank, they are sorted by it; else rank r has the r-th of `paths`.
    Raises InputError for a file that is no model, two traces of one rank, and models that differ.
    """
    if len(paths) > MOST_FILES:
        raise InputError(f"{len(paths)} traces: at most {MOST_FILES}")
    traces = [(path.name, *_read(path)) for path in paths]
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
    values = tuple(getattr(owner, quantity) for owner in owners)
    return {quantity: fmean(values), f"{quantity}s": values}


def _facts(model: Model) -> Iterator[tuple[object, str]]:
    """What is equal in the models of all ranks of a job, each with its name."""
    for name in ("batch", "dtype", "gradient_dtype"):
        yield getattr(model, name), f"{name} ({getattr(model, name)})"
    yield len(model.layers), f"number of layers ({len(model.layers)})"
    for number, layer in enumerate(model.layers):
        for field in fields(Layer):
            if field.name not in ("forward", "backward", "forwards", "backwards"):
                yield getattr(layer, field.name), f"{field.name} of layer {number} ({layer.name})"


def parse(text: str, name: str) -> Model:
    """The model in the text of the YAML or JSON file `name`. Raises InputError as :func:`read`
    does."""
    text = check_text(text, name)
    is_json = Path(name).suffix.lower() == ".json" or text.lstrip().startswith("{")
    content = (load_json if is_json else load_yaml)(text, name)
    return _model(content, place_in(text, name))


def dumps(model: Model) -> str:
    """A model as YAML that :func:`parse` reads back as an equal one, without the values that equal
    the defaults.

    Raises InputError when no file can hold it: two layers of one name, a name that is not
    printable, a time of years.
    """
    for layer in model.layers:
        for name, number in Counter(tensor.name for tensor in layer.tensors).items():
            if number > 1:
                raise InputError(
                    f"layer {layer.name} of {model.name} has {number} parameters called {name}: a "
                    f"file has one"
                )
    names = [model.layers[k].name for k in model.registration]
    content = _unusual(ModelPart, vars(model) | {"registration": names, "layers": []})
    content["layers"] = [_unusual(LayerPart, vars(layer)) for layer in model.layers]
    place = f"model {shown(model.name)}, "
    _model(content, lambda location: f"{place}{spelling(location)}".removesuffix(", "))
    text: str = yaml.safe_dump(
        content, sort_keys=False, allow_unicode=True, default_flow_style=None, width=4096
    )
    if len(text) > LIMIT:
        raise InputError(f"model {model.name} is a file of more than 16 MiB, which none reads")
    return text


def _unusual(part: type[Part], values: Mapping[str, Any]) -> dict[str, Any]:
    known = {name: values[name] for name in part.model_fields}
    return part.model_construct(**known).model_dump(exclude_defaults=True, by_alias=True)


def _model(content: object, place: Place) -> Model:
    """The model that plain values describe.

    Raises InputError with the place of the first mistake and the number of all others.
    """
    mistakes = Mistakes()
    document = mistakes.checked(ModelPart, content)
    mistakes.report(place)
    names = [layer.name for layer in document.layers]
    mistakes.add(_wrong_names(names, document.registration))
    mistakes.report(place)
    number = {name: k for k, name in enumerate(names)}
    registration = tuple(number[name] for name in document.registration)
    layers = tuple(Layer(**dict(part)) for part in document.layers)
    with naming(place(())):
        return Model(**dict(document) | {"layers": layers, "registration": registration})


def _wrong_names(names: list[str], registration: list[str]) -> Iterator[Mistake]:
    """Names that are there several times, or that a list names and no layer has."""
    times, registered = Counter(names), Counter(registration)
    for number, name in enumerate(names):
        if times[name] > 1:
            twice = f"{shown(name)} is there {times[name]} times: names are unique"
            yield ("layers", number, "name"), twice
    for number, name in enumerate(registration):
        if name not in times:
            yield ("registration", number), f"{shown(name)} is no layer"
        elif registered[name] > 1:
            twice = f"{shown(name)} is there {registered[name]} times: each layer once"
            yield ("registration", number), twice
    for name in times if registered else ():
        if name not in registered:
            yield ("registration",), f"{shown(name)} is not in it: each layer once"
