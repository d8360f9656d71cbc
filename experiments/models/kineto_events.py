"""The events of a Chrome trace that say how long something took."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import AliasChoices, BaseModel, Field, ValidationError

from topologies.errors import InputError

Microseconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Args(BaseModel):
    """What PyTorch says of an event. `dims` and `types` are those of the inputs, and may be of any
    form."""

    sequence: int | None = Field(None, alias="Sequence number")
    external: int | None = Field(None, validation_alias=AliasChoices("External id", "external id"))
    correlation: int | None = None
    dims: Any = Field(None, alias="Input Dims")
    types: Any = Field(None, alias="Input type")


class Event(BaseModel):
    """Something that starts at `ts` on the thread `tid` and takes `dur`, both in microseconds."""

    name: str
    cat: str
    tid: int | str
    ts: Microseconds
    dur: Microseconds = 0.0
    args: Args = Field({}, validate_default=True)

    @property
    def end(self) -> float:
        """Microseconds."""
        return self.ts + self.dur


def read_events(given: Sequence[object], kinds: Sequence[str], name: str) -> list[Event]:
    """Those of the traceEvents of the file `name` that are complete and of one of the `kinds`, by
    start, longest first.

    Raises InputError for one without a name, thread or time.
    """
    events = [_event(entry, k, name) for k, entry in enumerate(given) if _is_one(entry, kinds)]
    return sorted(events, key=lambda event: (event.ts, -event.dur, event.args.external or 0))


def _is_one(entry: object, kinds: Sequence[str]) -> bool:
    return isinstance(entry, dict) and entry.get("ph") == "X" and entry.get("cat") in kinds


def _event(entry: object, number: int, name: str) -> Event:
    try:
        return Event.model_validate(entry)
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_context=False)[0]
        where = ".".join(map(str, wrong["loc"]))
        raise InputError(f"{name}: traceEvents[{number}].{where}: {wrong['msg'].lower()}") from None
