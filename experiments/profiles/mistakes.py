"""What is wrong with a profile's document, in words: keys, values, and names that nothing goes
by."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from simulator.collectives import algorithms
from topologies.readers.schema import shown
from topologies.readers.topology_document import Mistake

if TYPE_CHECKING:
    from experiments.profiles.profile_document import Calibrated

_LONGEST = 600
_SAYINGS = {
    "missing": "is missing",
    "too_short": "is empty: at least one is needed",
    "too_long": "has too many entries: at most {max_length}",
    "string_type": "{value} is not text: put it in quotes",
    "string_too_short": "{value} is empty",
    "string_too_long": "{value}: {max_length} characters or fewer",
    "float_type": "{value} is not a number",
    "float_parsing": "{value} is not a number",
    "finite_number": "{value} is not finite",
    "greater_than": "{value}: above {gt:.12g}",
    "greater_than_equal": "{value}: {ge:.12g} or more",
    "less_than": "{value}: below {lt:.12g}",
    "less_than_equal": "{value}: {le:.12g} or less",
    "int_type": "{value} is not a whole number",
    "int_parsing": "{value} is not a whole number",
    "int_from_float": "{value} is not a whole number",
    "bool_type": "{value} is not true or false",
    "bool_parsing": "{value} is not true or false",
    "list_type": "{value} is not a list",
    "dict_type": "{value} is not a mapping of keys to values",
    "model_type": "{value} is not a mapping of keys to values",
}


def said(
    wrong: ErrorDetails, parts: Mapping[str, type[BaseModel]], whole: type[BaseModel]
) -> Mistake:
    """Where and what pydantic complains of, in our words; `parts` are the mappings below the keys
    of the `whole`."""
    place = tuple(key for key in wrong["loc"] if key != "[key]")
    if wrong["type"] == "extra_forbidden":
        part = next(
            (parts[key] for key in reversed(place[:-1]) if isinstance(key, str) and key in parts),
            whole,
        )
        known = [field.alias or name for name, field in part.model_fields.items()]
        return place, unknown("key", str(place[-1]), known)
    saying = _SAYINGS.get(wrong["type"], "{value} cannot be")
    return place, saying.format(value=shown(wrong["input"]), **wrong.get("ctx", {}))


def unknown(what: str, name: str, known: Collection[str]) -> str:
    """That a name is none of those that are known, and what it may have been meant to be."""
    near = get_close_matches(name.lower(), known, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    return f"no such {what}: {hint}there are {', '.join(known)}"[:_LONGEST]


def names(profile: Calibrated) -> Iterator[Mistake]:
    """The protocols, algorithms and kinds of links that a profile names, and that are none."""
    kinds = list(dict.fromkeys(kind for links in profile.protocols.values() for kind in links))
    for protocol, factors in profile.factors.items():
        yield from _among("protocol", ("factors", protocol), profile.protocols)
        for algorithm, by_kind in factors.items():
            yield from _among("algorithm", ("factors", protocol, algorithm), algorithms())
            for kind in by_kind:
                yield from _among("kind of link", ("factors", protocol, algorithm, kind), kinds)
    for algorithm, by_kind in profile.slower.items():
        yield from _among("algorithm", ("slower", algorithm), algorithms())
        for kind in by_kind:
            yield from _among("kind of link", ("slower", algorithm, kind), kinds)
    for kind, crowd in profile.crowding.items():
        yield from _among("kind of link", ("crowding", kind), kinds)
        counts = [own.nodes for own in crowd.apart]
        for number in sorted({count for count in counts if counts.count(count) > 1}):
            yield ("crowding", kind, "apart"), f"{number} nodes are in it twice: once is right"
    for number, one in enumerate(profile.ineffective):
        for place, algorithm in enumerate(one.ran):
            if algorithm not in algorithms():
                yield (
                    ("ineffective", number, "ran", place),
                    unknown("algorithm", algorithm, algorithms()),
                )
    for key, named in (
        ("scratch", profile.scratch),
        ("joined", profile.joined),
        ("launches", profile.launches),
    ):
        for algorithm in named:
            yield from _among("algorithm", (key, algorithm), algorithms())


def _among(what: str, place: tuple[str, ...], known: Collection[str]) -> Iterator[Mistake]:
    if place[-1] not in known:
        yield place, unknown(what, place[-1], known)
