"""A model as plain values (mappings, lists, text with units) and back, and every mistake in them
with its place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, fields
from difflib import get_close_matches
from math import inf
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationError
from pydantic_core import ErrorDetails

from simulator.training.model import Layer, Model, Tensor
from topologies.errors import InputError
from topologies.readers.quantities import bandwidth_text, seconds_text
from topologies.readers.schema import Bandwidth, Name, Note, Part, Seconds, shown
from topologies.readers.topology_document import Mistake, Place, spelt
from topologies.units import parse_bytes

MOST_LAYERS = 100_000
_LONGEST_QUANTITY = 60
_ONLY = "weight"
_SAYINGS = {
    "missing": "is missing",
    "string_type": "{} is not text: put it in quotes",
    "int_type": "{} is not a whole number",
    "list_type": "{} is not a list",
    "model_type": "{} is not a mapping of keys to values",
}


def _read_size(given: object) -> float:
    if isinstance(given, dict | list) or len(str(given)) > _LONGEST_QUANTITY:
        raise InputError(f"{shown(given)} is no size")
    return (
        0.0
        if str(given) in ("0", "0B")
        else parse_bytes(given if isinstance(given, str) else shown(given))
    )


def _named(given: object) -> object:
    return given if isinstance(given, dict) else {_ONLY: given}


Size = Annotated[float, BeforeValidator(_read_size)]
Count = Annotated[int, Field(ge=0, lt=2**31)]
Number = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Row(Part):
    """A layer."""

    name: Name
    forward: Seconds
    backward: Seconds
    activation: Size = 0.0
    parameters: Annotated[dict[Name, Size], BeforeValidator(_named)] = Field({})
    buffers: Size = 0.0
    channels: Count = 0
    arrival: list[Count] = Field([])
    forwards: list[Seconds] = Field([])
    backwards: list[Seconds] = Field([])


class Document(Part):
    """A whole file."""

    name: Name
    batch: Annotated[int, Field(ge=1, lt=2**31)]
    dtype: str = "fp32"
    gradient_dtype: str = "fp32"
    optimizer: Seconds = 0.0
    state: Number = 1.0
    inputs: Size = 0.0
    outputs: Size = 0.0
    memory_bandwidth: Bandwidth = inf
    device: Name = "unknown"
    source: Note = "unknown"
    registration: list[Name] = Field([])
    optimizers: list[Seconds] = Field([])
    layers: list[Row]


def model_of(content: object, place: Place) -> Model:
    """The model that plain values describe.

    Raises InputError with the place of the first mistake, and how many more there are.
    """
    document = _validated(content, place)
    _report(list(_between(document)), place)
    number = {row.name: k for k, row in enumerate(document.layers)}
    given = {
        key: value for key, value in document if key not in ("layers", "registration", "optimizers")
    }
    layers, registration = (
        map(_layer, document.layers),
        [number[name] for name in document.registration],
    )
    try:
        optimizers = tuple(document.optimizers)
        return Model(
            **given, layers=tuple(layers), registration=tuple(registration), optimizers=optimizers
        )
    except InputError as error:
        raise InputError(f"{place(())}: {error}") from None


def describe(model: Model) -> dict[str, Any]:
    """A model as plain values, to the bit; what is as usual is left out.

    Raises InputError when :func:`model_of` would not read it back.
    """
    _check_tensors(model)
    names = [layer.name for layer in model.layers]
    texts: dict[str, Text] = {"registration": lambda order: [names[k] for k in order]}
    content = _unusual(model, {**_TEXTS, **texts}) | {
        "layers": [_unusual(layer, _TEXTS) for layer in model.layers]
    }
    model_of(
        content, lambda location: f"model {shown(model.name)}, {spelt(location)}".removesuffix(", ")
    )
    return content


def _layer(row: Row) -> Layer:
    lists: dict[str, Any] = {
        key: tuple(getattr(row, key)) for key in ("arrival", "forwards", "backwards")
    }
    given = {key: value for key, value in row if key != "parameters" and key not in lists}
    tensors = tuple(Tensor(name, nbytes) for name, nbytes in row.parameters.items())
    return Layer(**given, **lists, tensors=tensors)


def _validated(content: object, place: Place) -> Document:
    rows = content.get("layers") if isinstance(content, dict) else None
    if isinstance(rows, list) and len(rows) > MOST_LAYERS:
        raise InputError(f"{place(('layers',))}: {len(rows)} layers: at most {MOST_LAYERS}")
    try:
        return Document.model_validate(content)
    except ValidationError as error:
        mistakes = error.errors(include_url=False, include_context=False)
        _report([(wrong["loc"], _said(wrong)) for wrong in mistakes], place)
        raise


def _report(mistakes: list[Mistake], place: Place) -> None:
    if mistakes:
        location, message = mistakes[0]
        more = (
            f" (and {len(mistakes) - 1} more mistake{'s' * (len(mistakes) > 2)})"
            if len(mistakes) > 1
            else ""
        )
        raise InputError(f"{place(location)}: {message}{more}")


def _said(wrong: ErrorDetails) -> str:
    """What pydantic complains of, in our words."""
    kind, message = wrong["type"], wrong["msg"]
    if kind in _SAYINGS:
        return _SAYINGS[kind].format(shown(wrong["input"]))
    if kind == "extra_forbidden":
        return _unknown(str(wrong["loc"][-1]), Row if len(wrong["loc"]) > 1 else Document)
    if kind == "value_error":
        return message.removeprefix("Value error, ")
    return f"{shown(wrong['input'])}: {message[0].lower()}{message[1:]}"


def _unknown(key: str, part: type[Part]) -> str:
    near = get_close_matches(key.lower(), part.model_fields, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    return f"no such key: {hint}there are {', '.join(part.model_fields)}"


def _between(document: Document) -> Iterator[Mistake]:
    """What is wrong between parts that are right by themselves."""
    met: set[str] = set()
    for number, row in enumerate(document.layers):
        if row.name in met:
            yield ("layers", number, "name"), f"{shown(row.name)} is there twice: names are unique"
        met.add(row.name)
    times = Counter(document.registration)
    for number, name in enumerate(document.registration):
        if name not in met:
            near = get_close_matches(name, met, n=1)
            yield (
                ("registration", number),
                f"{shown(name)} is no layer{f': did you mean {near[0]}?' if near else ''}",
            )
        elif times[name] > 1:
            yield (
                ("registration", number),
                f"{shown(name)} is there {times[name]} times: each layer once",
            )
    if times and len(met) > len(times):
        missing = next(row.name for row in document.layers if row.name not in times)
        yield ("registration",), f"{shown(missing)} is not in it: each layer once"


Text = Callable[[Any], object]


def _size_text(nbytes: float) -> str:
    return bandwidth_text(float(nbytes)).removesuffix("/s")


def _parameters_text(tensors: tuple[Tensor, ...]) -> object:
    texts = {tensor.name: _size_text(tensor.nbytes) for tensor in tensors}
    return texts[_ONLY] if list(texts) == [_ONLY] else texts


def _seconds_text(seconds: float) -> str:
    return seconds_text(float(seconds))


def _times_text(times: tuple[float, ...]) -> list[object]:
    return [_seconds_text(seconds) for seconds in times]


_TEXTS: Mapping[str, Text] = {
    "forward": _seconds_text,
    "backward": _seconds_text,
    "optimizer": _seconds_text,
    "forwards": _times_text,
    "backwards": _times_text,
    "optimizers": _times_text,
    "memory_bandwidth": bandwidth_text,
    "tensors": _parameters_text,
    "arrival": list,
    "activation": _size_text,
    "buffers": _size_text,
    "inputs": _size_text,
    "outputs": _size_text,
}


def _unusual(part: Model | Layer, texts: Mapping[str, Text]) -> dict[str, Any]:
    """The fields that are not as they are by default."""
    content = {}
    for item in fields(part):
        value = getattr(part, item.name)
        if item.name != "layers" and (item.default is MISSING or value != item.default):
            key = "parameters" if item.name == "tensors" else item.name
            content[key] = texts[item.name](value) if item.name in texts else value
    return content


def _check_tensors(model: Model) -> None:
    for layer in model.layers:
        (name, times), *_ = Counter(tensor.name for tensor in layer.tensors).most_common(1) or [
            ("", 1)
        ]
        if times > 1:
            raise InputError(
                f"layer {layer.name} of {model.name} has {times} parameters called {name}: a "
                f"file has one"
            )
