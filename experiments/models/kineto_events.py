"""The events with a duration in a Chrome trace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import AliasChoices, BaseModel, Field, ValidationError

from topologies.errors import InputError

Microseconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Args(BaseModel):
    """The arguments of an event."""

    sequence: int | None = Field(None, alias="Sequence number")
    """Autograd's sequence number."""
    external: int | None = Field(None, validation_alias=AliasChoices("External id", "external id"))
    correlation: int | None = None
    """The number that a kernel shares with its launch."""
    dims: Any = Field(None, alias="Input Dims")
    """The shapes of the inputs, in any form."""
    types: Any = Field(None, alias="Input type")
    """The types of the inputs, in any form."""


class Event(BaseModel):
    """An event that starts at `ts` on thread `tid` and takes `dur`, both in microseconds."""

    name: str
    cat: str
    tid: int | str
    ts: Microseconds
    dur: Microseconds = 0.0
    args: Args = Field({}, validate_default=True)

    @property
    def end(self) -> float:
        """The end of the event, in microseconds."""
        return self.ts + self.dur


def read_events(entries: Sequence[object], kinds: Sequence[str], name: str) -> list[Event]:
    """The complete events of some kinds among the traceEvents of the file `name`.

    They are sorted by start, and the longest comes first. Raises InputError for an event without a
    name, thread or time.
    """
    events = [_event(entry, k, name) for k, entry in enumerate(entries) if _is_of(entry, kinds)]
    return sorted(events, key=lambda event: (event.ts, -event.dur, event.args.external or 0))


def _is_of(entry: object, kinds: Sequence[str]) -> bool:
    return isinstance(entry, dict) and entry.get("ph") == "X" and entry.get("cat") in kinds


def _event(entry: object, number: int, name: str) -> Event:
    try:
        return Event.model_validate(entry)
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_context=False)[0]
        where = ".".join(map(str, wrong["loc"]))
        raise InputError(f"{name}: traceEvents[{number}].{where}: {wrong['msg'].lower()}") from None
