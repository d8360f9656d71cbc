"""A profile with where it is from and how far it can be trusted, as YAML and back.

All numbers are SI: seconds, bytes a second, seconds a byte.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import fields
from math import inf, isfinite, isinf
from typing import Annotated, Any

from pydantic import Field

from experiments.profiles.document_parts import (
    ABOUT,
    Changed,
    DocumentPart,
    Keys,
    Nodes,
    UncertaintyPart,
    Whole,
    part_of,
)
from experiments.spellings import library_name
from simulator.collectives import algorithms
from simulator.effects.labels import Ineffective
from simulator.effects.link_slowdowns import Crowding, Exchanges, NodeCorrection, PeerChannels
from simulator.effects.parameter_units import Bytes, Power, Seconds, Word
from simulator.effects.software_costs import HostMemory, KernelCosts, PieceCounts
from simulator.profile import Profile, Protocol, Uncertainty
from topologies.errors import Location, Place, naming
from topologies.link import Link
from topologies.readers.mistakes import WORDS, Mistake, Mistakes, unknown

Times = Annotated[float, Field(ge=1e-6, le=1e6)]
Ratio = Annotated[float, Field(ge=0, le=1e6)]
Phrase = Annotated[str, Field(max_length=200)]
Remark = Annotated[str, Field(max_length=2000)]
MOST = 64


class LinkFigures(DocumentPart):
    """The link of a kind."""

    latency: Seconds
    gap: Seconds = 0.0
    bandwidth: Bytes


Corrections = Annotated[list[Annotated[NodeCorrection, Keys, Changed]], Field(max_length=1024)]
Labels = Annotated[list[Annotated[Ineffective, Keys, Changed]], Field(max_length=1024)]


class CrowdingPart(DocumentPart):
    """How links of a kind slow down as a job grows."""

    nodes: Nodes
    latency: Power = 0.0
    bandwidth: Power = 0.0
    apart: Corrections = Field([])
    per_node: Nodes = 1.0
    shared: Power = 0.0
    most: Nodes | None = None
    """The most nodes that were measured; None: no bound."""
    protocol: Phrase = ""


class Estimated(DocumentPart, allow_inf_nan=True):
    """A fitted parameter."""

    value: float
    low: float | None = None
    """The lower end of the 95% interval, None if the interval says nothing."""
    high: float | None = None
    """The upper end of the interval."""
    unit: Word
    open: Phrase = ""
    """Why the data do not identify the parameter; empty if they do."""


class Error(DocumentPart, allow_inf_nan=True):
    """Mean |log(predicted / measured)| of points that the fit has not seen; the median for
    plateaus."""

    points: Annotated[int, Field(ge=0)]
    """The number of points."""
    model: float | None
    """The error of the model."""
    discrepancy: float | None
    """The error of the model with its discrepancy."""
    baseline: float | None
    """The error of one α and one β for each curve."""
    inside: float | None = None
    """The share of the points inside their 80% intervals."""


class Calibrated(DocumentPart):
    """A profile in a file. Fields without a docstring are those of `Profile`."""

    profile: Word
    """The name of the profile."""
    machine: Word
    library: Word
    """The library whose runs were measured."""
    launch: Seconds
    protocols: Annotated[dict[Word, dict[Word, LinkFigures]], Field(min_length=1, max_length=MOST)]
    factors: dict[Word, dict[Word, dict[Word, Ratio]]] = Field({})
    longest: dict[Word, Bytes] = Field({})
    """The bytes of the longest message that a protocol carries. Without an entry, any message."""
    crowding: dict[Word, CrowdingPart] = Field({})
    memory: Annotated[HostMemory, Keys, Whole] = HostMemory()
    scratch: dict[Word, Ratio] = Field({})
    joined: dict[Word, Ratio] = Field({})
    slower: dict[Word, dict[Word, Times]] = Field({})
    launches: dict[Word, Seconds] = Field({})
    exchanges: Annotated[Exchanges, Keys, Whole] = Exchanges()
    pieces: dict[Word, Annotated[PieceCounts, Keys, Whole]] = Field({})
    channels: dict[Word, Annotated[PeerChannels, Keys, Whole]] = Field({})
    kernels: Annotated[KernelCosts, Keys, Whole] = KernelCosts()
    paced: bool = False
    pace_on_two: Times = 1.0
    ineffective: Labels = Field([])
    estimates: dict[Word, Estimated] = Field({})
    """The fitted parameters by name."""
    errors: dict[Word, Error] = Field({})
    """The errors on unseen sizes, ranks and plateaus."""
    uncertainty: UncertaintyPart | None = None
    """How sure the profile is; None in an old file."""
    sources: list[Remark] = Field([])
    """What was measured."""
    made: dict[Word, Remark] = Field({})
    """How the profile was made: versions, command, checksums of files."""

    def simulated(self) -> Profile:
        """What a simulation takes."""
        protocols = (
            Protocol(
                name,
                {kind: Link(**dict(link)) for kind, link in links.items()},
                self.factors.get(name, {}),
                self.longest.get(name, inf),
            )
            for name, links in self.protocols.items()
        )
        return Profile(
            name=self.profile,
            protocols=tuple(protocols),
            crowding={kind: _crowding(keys) for kind, keys in self.crowding.items()},
            ineffective=tuple(self.ineffective),
            uncertainty=self._uncertainty(),
            **{key: getattr(self, key) for key in SHARED},
        )

    def _uncertainty(self) -> Uncertainty | None:
        if self.uncertainty is None:
            return None
        content = self.model_dump(exclude={*ABOUT})
        variants = (
            calibrated(variant, self._moved) for variant in self.uncertainty.variants(content)
        )
        return Uncertainty(
            self.uncertainty.residuals(), tuple(variant.simulated() for variant in variants)
        )

    def _moved(self, location: tuple[int | str, ...]) -> str:
        return f"profile {self.profile}, uncertainty.moved.{'/'.join(map(str, location))}"


SHARED = [
    field.name
    for field in fields(Profile)
    if field.name in Calibrated.model_fields.keys() - {"protocols", "crowding", *ABOUT}
]
"""The keys of a document that are fields of a `Profile`."""


def _crowding(part: CrowdingPart) -> Crowding:
    values = dict(part) | {"most": part.most or inf}
    corrections = tuple(values.pop("apart"))
    return Crowding(**values, corrections=corrections)


def _crowding_part(crowding: Crowding) -> dict[str, Any]:
    values = crowding._asdict() | {"most": None if isinf(crowding.most) else crowding.most}
    return values | {"apart": list(values.pop("corrections"))}


def calibrated(content: object, place: Place) -> Calibrated:
    """The profile that plain values describe. Raises InputError with the place of the first
    mistake."""
    mistakes = Mistakes(WORDS | _LIMITS)
    profile: Calibrated = mistakes.checked(Calibrated, content)
    mistakes.report(place)
    with naming(place(("library",))):
        library_name(profile.library)
    mistakes.add(unknown_names(profile))
    if profile.uncertainty is not None:
        mistakes.add(profile.uncertainty.mistakes(profile.model_dump(exclude={*ABOUT})))
    mistakes.report(place)
    return profile


_LIMITS = {
    "too_long": "has too many entries: at most {max_length}",
    "string_too_short": "{value} is empty",
    "string_too_long": "{value}: {max_length} characters or fewer",
    "finite_number": "{value} is not finite",
    "greater_than": "{value}: above {gt:.12g}",
    "greater_than_equal": "{value}: {ge:.12g} or more",
    "less_than": "{value}: below {lt:.12g}",
    "less_than_equal": "{value}: {le:.12g} or less",
}


def of(profile: Profile, library: str, **about: Any) -> Calibrated:
    """A fitted profile as a document; `about` is what else its fields say."""
    content = _content(profile, library)
    if (sure := profile.uncertainty) is not None:
        named = {"profile": profile.name, "machine": profile.machine}
        whole, *moved = (
            _checked(_content(each, library) | named).model_dump(exclude={*ABOUT})
            for each in (profile, *sure.variants)
        )
        content["uncertainty"] = part_of(sure, whole, moved)
    return _checked(content | about)


def _checked(content: dict[str, Any]) -> Calibrated:
    return calibrated(
        content | {"profile": str(content["profile"])},
        lambda place: "profile " + ".".join(map(str, place)),
    )


def _content(profile: Profile, library: str) -> dict[str, Any]:
    return {
        "profile": profile.name,
        "library": library,
        "protocols": {
            one.name: {kind: vars(link) for kind, link in one.links.items()}
            for one in profile.protocols
        },
        "factors": {one.name: one.factors for one in profile.protocols if one.factors},
        "longest": {one.name: one.most for one in profile.protocols if isfinite(one.most)},
        "crowding": {kind: _crowding_part(crowd) for kind, crowd in profile.crowding.items()},
        "ineffective": list(profile.ineffective),
        **{key: getattr(profile, key) for key in SHARED},
    }


def dumps(profile: Calibrated) -> str:
    """A profile as YAML that is read back as an equal one."""
    import yaml

    content = profile.model_dump(exclude_defaults=True)
    text: str = yaml.safe_dump(
        content, sort_keys=False, allow_unicode=True, default_flow_style=None, width=120
    )
    return text


def unknown_names(profile: Calibrated) -> Iterator[Mistake]:
    """The protocols, algorithms and kinds of links that a profile names, and that are none, and
    numbers of nodes that it has twice."""
    kinds = list(dict.fromkeys(kind for links in profile.protocols.values() for kind in links))
    names: dict[str, Collection[str]] = {
        "protocol": profile.protocols,
        "algorithm": algorithms(),
        "kind of link": kinds,
    }
    for noun, place, name in _names(profile):
        if name not in names[noun]:
            yield place, unknown(noun, name, names[noun])
    for kind, crowd in profile.crowding.items():
        counts = [correction.nodes for correction in crowd.apart]
        for number in sorted({count for count in counts if counts.count(count) > 1}):
            yield ("crowding", kind, "apart"), f"{number} nodes are in it twice: once is right"


def _names(profile: Calibrated) -> Iterator[tuple[str, Location, str]]:
    protocols = "factors", "longest"
    for key in (*protocols, "slower", "scratch", "joined", "launches", "pieces", "channels"):
        noun = "protocol" if key in protocols else "algorithm"
        yield from ((noun, (key, name), name) for name in getattr(profile, key))
    rows: dict[Location, dict[str, float]] = {
        ("slower", name): row for name, row in profile.slower.items()
    }
    for protocol, factors in profile.factors.items():
        for name, row in factors.items():
            yield "algorithm", ("factors", protocol, name), name
            rows["factors", protocol, name] = row
    for place, row in rows.items():
        yield from (("kind of link", (*place, kind), kind) for kind in row)
    for name, channels in profile.channels.items():
        yield "kind of link", ("channels", name, channels.kind), channels.kind
    for kind, crowd in profile.crowding.items():
        yield "kind of link", ("crowding", kind), kind
        if crowd.protocol:
            yield "protocol", ("crowding", kind, "protocol"), crowd.protocol
    for number, entry in enumerate(profile.ineffective):
        for at, name in enumerate(entry.ran):
            yield "algorithm", ("ineffective", number, "ran", at), name.partition(":")[0]
