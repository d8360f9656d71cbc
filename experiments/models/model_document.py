"""A model as plain values (mappings, lists, text with units) and back.

Mistakes in the values are reported with their place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, fields
from dataclasses import Field as DataclassField
from difflib import get_close_matches
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, BeforeValidator, Field, create_model

from simulator.training.model import Layer, Model, Tensor
from topologies.errors import InputError, shown
from topologies.readers.mistakes import Mistake, Mistakes, Place, spelling
from topologies.readers.quantities import bandwidth_text, seconds_text
from topologies.readers.schema import Bandwidth, Name, Note, Part, Seconds
from topologies.units import parse_bytes

MOST_LAYERS = 100_000
_LONGEST_QUANTITY = 60
_ONLY = "weight"


def _read_size(content: object) -> float:
    if isinstance(content, dict | list) or len(str(content)) > _LONGEST_QUANTITY:
        raise InputError(f"{shown(content)} is no size")
    return (
        0.0
        if str(content) in ("0", "0B")
        else parse_bytes(content if isinstance(content, str) else shown(content))
    )


def _named(content: object) -> object:
    return content if isinstance(content, dict) else {_ONLY: content}


def _tensors(parameters: dict[str, float]) -> tuple[Tensor, ...]:
    return tuple(Tensor(name, nbytes) for name, nbytes in parameters.items())


def _size_text(nbytes: float) -> str:
    return bandwidth_text(float(nbytes)).removesuffix("/s")


def _parameters_text(tensors: tuple[Tensor, ...]) -> object:
    texts = {tensor.name: _size_text(tensor.nbytes) for tensor in tensors}
    return texts[_ONLY] if list(texts) == [_ONLY] else texts


def _seconds_text(seconds: float) -> str:
    return seconds_text(float(seconds))


class _Key(NamedTuple):
    """A key of a file."""

    type: Any
    """The type of its value in the file; pydantic checks it."""
    text: Callable[[Any], object] = lambda value: value
    """How the value is written."""


Count = Annotated[int, Field(ge=0, lt=2**31)]
Size = Annotated[float, BeforeValidator(_read_size)]
_SIZE = _Key(Size, _size_text)
_SECONDS = _Key(Seconds, _seconds_text)
_TIMES = _Key(
    Annotated[list[Seconds], AfterValidator(tuple)], lambda times: [*map(_seconds_text, times)]
)
_PARAMETERS = Annotated[dict[Name, Size], BeforeValidator(_named), AfterValidator(_tensors)]
_LAYER: Mapping[str, _Key] = {
    "name": _Key(Name),
    "forward": _SECONDS,
    "backward": _SECONDS,
    "activation": _SIZE,
    "parameters": _Key(_PARAMETERS, _parameters_text),
    "buffers": _SIZE,
    "channels": _Key(Count),
    "arrival": _Key(Annotated[list[Count], AfterValidator(tuple)], list),
    "forwards": _TIMES,
    "backwards": _TIMES,
}
"""The keys of a layer: the fields of :class:`simulator.training.model.Layer`."""
_MODEL: Mapping[str, _Key] = {
    "name": _Key(Name),
    "batch": _Key(Annotated[int, Field(ge=1, lt=2**31)]),
    "dtype": _Key(str),
    "gradient_dtype": _Key(str),
    "optimizer": _SECONDS,
    "state": _Key(Annotated[float, Field(ge=0, allow_inf_nan=False)]),
    "inputs": _SIZE,
    "outputs": _SIZE,
    "memory_bandwidth": _Key(Bandwidth, bandwidth_text),
    "multiprocessors": _Key(Count),
    "device": _Key(Name),
    "source": _Key(Note),
    "registration": _Key(list[Name]),
    "optimizers": _TIMES,
}
"""The keys of a model besides its layers: the fields of :class:`simulator.training.model.Model`."""


def _part(keys: Mapping[str, _Key], record: type[Model | Layer]) -> dict[str, Any]:
    """The type and the default of each key; the defaults are those of the record."""
    defaults = {_key(item): item.default for item in fields(record) if item.name != "layers"}
    return {
        key: (keys[key].type, ... if value is MISSING else value) for key, value in defaults.items()
    }


def _key(item: DataclassField[Any]) -> str:
    """How a file calls a field."""
    return "parameters" if item.name == "tensors" else item.name


LayerPart = create_model("LayerPart", __base__=Part, **_part(_LAYER, Layer))
ModelPart = create_model(
    "ModelPart",
    __base__=Part,
    **_part(_MODEL, Model),
    layers=(list[LayerPart], ...),  # type: ignore[valid-type]
)


def model_of(content: object, place: Place) -> Model:
    """The model that plain values describe.

    Raises InputError with the place of the first mistake and the number of all others.
    """
    document = _validated(content, place)
    number = {layer.name: k for k, layer in enumerate(document.layers)}
    values = dict(document) | {
        "layers": tuple(_layer(layer) for layer in document.layers),
        "registration": tuple(number[name] for name in document.registration),
    }
    try:
        return Model(**values)
    except InputError as error:
        raise InputError(f"{place(())}: {error}") from None


def describe(model: Model) -> dict[str, Any]:
    """A model as plain values, exact to the bit, without the values that equal the defaults.

    Raises InputError if :func:`model_of` cannot read them back.
    """
    _check_tensors(model)
    names = [layer.name for layer in model.layers]
    order = _Key(list[Name], lambda order: [names[k] for k in order])
    content = _unusual(model, {**_MODEL, "registration": order}) | {
        "layers": [_unusual(layer, _LAYER) for layer in model.layers]
    }
    model_of(
        content,
        lambda location: f"model {shown(model.name)}, {spelling(location)}".removesuffix(", "),
    )
    return content


def _layer(part: Part) -> Layer:
    values = dict(part)
    tensors = values.pop("parameters")
    return Layer(**values, tensors=tensors)


def _validated(content: object, place: Place) -> Any:
    rows = content.get("layers") if isinstance(content, dict) else None
    if isinstance(rows, list) and len(rows) > MOST_LAYERS:
        raise InputError(f"{place(('layers',))}: {len(rows)} layers: at most {MOST_LAYERS}")
    mistakes = Mistakes()
    document = mistakes.checked(ModelPart, content)
    mistakes.report(place)
    mistakes.add(_between(document))
    mistakes.report(place)
    return document


def _between(document: Any) -> Iterator[Mistake]:
    """Names that are there twice, or that a list names and no layer has."""
    met: set[str] = set()
    for number, layer in enumerate(document.layers):
        if layer.name in met:
            yield (
                ("layers", number, "name"),
                f"{shown(layer.name)} is there twice: names are unique",
            )
        met.add(layer.name)
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
        missing = next(layer.name for layer in document.layers if layer.name not in times)
        yield ("registration",), f"{shown(missing)} is not in it: each layer once"


def _unusual(record: Model | Layer, keys: Mapping[str, _Key]) -> dict[str, Any]:
    """The values, as they are written, that differ from the defaults."""
    values = {
        _key(item): getattr(record, item.name)
        for item in fields(record)
        if item.name != "layers" and getattr(record, item.name) != item.default
    }
    return {key: keys[key].text(value) for key, value in values.items()}


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
