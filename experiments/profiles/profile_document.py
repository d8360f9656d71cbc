"""A profile with where it is from and how far it can be trusted, as YAML and back.

All numbers are SI: seconds, bytes a second, seconds a byte.
"""

from __future__ import annotations

from math import inf, isinf
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from experiments.profiles.unknown_names import unknown_names
from experiments.spellings import library_name
from simulator.effects.crowded_links import Crowding, NodeCorrection
from simulator.effects.exchanges import Exchanges
from simulator.effects.memory_costs import Memory
from simulator.profile import Ineffective, Profile, Protocol
from topologies.errors import InputError
from topologies.link import Link
from topologies.readers.mistakes import WORDS, Mistakes, Place

Word = Annotated[str, Field(min_length=1, max_length=200)]
Seconds = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
Rate = Annotated[float, Field(gt=0, le=1e18, allow_inf_nan=False)]
Power = Annotated[float, Field(ge=-10, le=10, allow_inf_nan=False)]
Times = Annotated[float, Field(ge=1e-6, le=1e6, allow_inf_nan=False)]
Ratio = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]
MOST = 64


class Part(BaseModel):
    """A mapping whose keys are all known."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=False)


class LinkPart(Part):
    """The link of a kind."""

    latency: Seconds
    gap: Seconds = 0.0
    bandwidth: Rate


class Own(Part):
    """What a number of nodes has of its own: logarithms of by how much α and 1/β are longer."""

    nodes: Annotated[int, Field(ge=1, le=10**9)]
    latency: Power = 0.0
    bandwidth: Power = 0.0


class Crowd(Part):
    """How links of a kind slow down with the number of nodes, up to `most` nodes (no bound without
    it), and with that of ranks a node that share them."""

    nodes: Annotated[float, Field(ge=1, le=1e9)]
    latency: Power = 0.0
    bandwidth: Power = 0.0
    apart: Annotated[list[Own], Field(max_length=1024)] = Field([])
    per_node: Annotated[float, Field(ge=1, le=1e9)] = 1.0
    shared: Power = 0.0
    most: Annotated[float, Field(ge=1, le=1e9)] | None = None


class Host(Part):
    """Seconds a byte of merging, copying and fresh memory, seconds a time that it is pinned, and
    sizes in bytes: of the cache, and from which on memory is mapped and trimmed."""

    reduction: Seconds = 0.0
    reduction_beyond: Seconds = 0.0
    copy_: Annotated[Seconds, Field(alias="copy")] = 0.0
    copy_beyond: Seconds = 0.0
    fresh: Seconds = 0.0
    cache: Rate = 2.0**23.5
    back: Seconds = 0.0
    mapped: Rate = 2.0**25
    trimmed: Rate = 2.0**19
    registered: Seconds = 0.0
    pinned: Seconds = 0.0


class Long(Part):
    """Seconds a byte that long exchanges take more, of the bytes after the first `beyond`."""

    slowness: Seconds = 0.0
    beyond: Rate = 2.0**22


class Label(Part):
    """A label that had no effect, and which algorithms ran instead, of a library in words; on so
    many ranks and nodes, or on all that were measured."""

    label: Word
    collective: Word
    ran: Annotated[list[Word], Field(min_length=1, max_length=MOST)]
    ranks: Annotated[int, Field(ge=1, le=10**9)] | None = None
    nodes: Annotated[int, Field(ge=1, le=10**9)] | None = None
    library: Annotated[str, Field(max_length=200)] = ""


class Estimated(Part):
    """A fitted parameter, its 95% interval, none if it says nothing, and why the data do not
    identify it, if they do not."""

    value: float
    low: float | None = None
    high: float | None = None
    unit: Word
    open: Annotated[str, Field(max_length=200)] = ""


class Error(Part):
    """Mean (of plateaus: median) |predicted / measured - 1| of `points` that the fit has not seen:
    of the model, of the model with its discrepancy, and of one α and one β a curve."""

    points: Annotated[int, Field(ge=0)]
    model: float | None
    discrepancy: float | None
    baseline: float | None


class Calibrated(Part):
    """A profile in a file. `sources` say what was measured, `errors` are those on unseen sizes,
    ranks and plateaus."""

    profile: Word
    machine: Word
    library: Word
    launch: Seconds
    protocols: Annotated[dict[Word, dict[Word, LinkPart]], Field(min_length=1, max_length=MOST)]
    factors: dict[Word, dict[Word, dict[Word, Ratio]]] = Field({})
    crowding: dict[Word, Crowd] = Field({})
    memory: Host = Host()
    scratch: dict[Word, Ratio] = Field({})
    joined: dict[Word, Ratio] = Field({})
    slower: dict[Word, dict[Word, Times]] = Field({})
    launches: dict[Word, Seconds] = Field({})
    exchanges: Long = Long()
    paced: bool = False
    ineffective: Annotated[list[Label], Field(max_length=1024)] = Field([])
    estimates: dict[Word, Estimated] = Field({})
    errors: dict[Word, Error] = Field({})
    sources: list[Annotated[str, Field(max_length=2000)]] = Field([])
    made: dict[Word, Annotated[str, Field(max_length=2000)]] = Field({})

    def simulated(self) -> Profile:
        """What a simulation takes."""
        protocols = tuple(
            Protocol(
                name,
                {
                    kind: Link(link.bandwidth, link.latency, link.gap)
                    for kind, link in links.items()
                },
                self.factors.get(name, {}),
            )
            for name, links in self.protocols.items()
        )
        crowding = {kind: _crowding(keys) for kind, keys in self.crowding.items()}
        memory = Memory(**self.memory.model_dump(by_alias=True))
        exchanges = Exchanges(**self.exchanges.model_dump())
        values = (self.profile, self.machine, self.launch, protocols, crowding, memory)
        labels = tuple(
            Ineffective(**entry.model_dump() | {"ran": tuple(entry.ran)})
            for entry in self.ineffective
        )
        return Profile(
            *values,
            self.scratch,
            self.paced,
            self.joined,
            self.slower,
            self.launches,
            exchanges,
            labels,
        )


def _crowding(keys: Crowd) -> Crowding:
    values = keys.model_dump() | {"most": keys.most or inf}
    corrections = tuple(NodeCorrection(**entry) for entry in values.pop("apart"))
    return Crowding(**values, corrections=corrections)


def _crowd(crowding: Crowding) -> dict[str, Any]:
    values = crowding._asdict() | {"most": None if isinf(crowding.most) else crowding.most}
    return values | {"apart": [entry._asdict() for entry in values.pop("corrections")]}


def calibrated(content: object, place: Place) -> Calibrated:
    """The profile that plain values describe. Raises InputError with the place of the first
    mistake."""
    mistakes = Mistakes(WORDS | _LIMITS)
    profile: Calibrated = mistakes.checked(Calibrated, content)
    mistakes.report(place)
    try:
        library_name(profile.library)
    except InputError as error:
        raise InputError(f"{place(('library',))}: {error}") from None
    mistakes.add(unknown_names(profile))
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
    protocols = {
        protocol.name: {kind: vars(link) for kind, link in protocol.links.items()}
        for protocol in profile.protocols
    }
    factors = {
        protocol.name: {key: dict(row) for key, row in protocol.factors.items()}
        for protocol in profile.protocols
    }
    content: dict[str, Any] = dict(
        profile=profile.name,
        machine=profile.machine,
        library=library,
        launch=profile.launch,
        protocols=protocols,
        factors={name: rows for name, rows in factors.items() if rows},
        crowding={kind: _crowd(crowd) for kind, crowd in profile.crowding.items()},
        memory=profile.memory._asdict(),
        scratch=dict(profile.scratch),
        joined=dict(profile.joined),
        slower={name: dict(row) for name, row in profile.slower.items()},
        launches=dict(profile.launches),
        exchanges=profile.exchanges._asdict(),
        paced=profile.paced,
        ineffective=[protocol._asdict() for protocol in profile.ineffective],
        **about,
    )
    return calibrated(
        content | {"profile": profile.name}, lambda place: "profile " + ".".join(map(str, place))
    )


def dumps(profile: Calibrated) -> str:
    """A profile as YAML that is read back as an equal one."""
    import yaml

    content = profile.model_dump(by_alias=True, exclude_defaults=True)
    for part in ("memory", "exchanges"):
        if part in content:
            content[part] = getattr(profile, part).model_dump(by_alias=True)
    text: str = yaml.safe_dump(
        content, sort_keys=False, allow_unicode=True, default_flow_style=None, width=120
    )
    return text
