"""Reads dumps of torch's flight recorder, a file a rank: pickles of plain values, or JSON."""

from __future__ import annotations

import io
import pickle
import struct
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NoReturn

from experiments.traces.job_calls import (
    MeasuredCall,
    RankTrace,
    collective_of,
    is_count,
    size_of,
    tensor_bytes,
)
from topologies.errors import InputError, as_text, shown

PICKLE = (b"\x80", b"(", b"}")
"""How a pickle of a dict begins: protocols 2 to 5, 0 and 1."""
MOST_ENTRIES = 1_000_000
_OBJECTS = {
    code[0]
    for code in (
        pickle.ADDITEMS,
        pickle.BUILD,
        pickle.BYTEARRAY8,
        pickle.EXT1,
        pickle.EXT2,
        pickle.EXT4,
        pickle.FROZENSET,
        pickle.NEWOBJ,
        pickle.NEWOBJ_EX,
        pickle.NEXT_BUFFER,
        pickle.READONLY_BUFFER,
        pickle.REDUCE,
    )
}
"""Codes of a pickle that are of no plain value. Those that name a class are refused by name."""
_KEYS = (
    (pickle.SETITEM, slice(-2, None, 2)),
    (pickle.SETITEMS, slice(None, None, 2)),
    (pickle.DICT, slice(None, None, 2)),
)
"""Codes that fill a dict, and where the keys are on the stack."""


def _with_plain_keys(load: Callable[..., None], keys: slice) -> Callable[..., None]:
    """Refuses tuples as keys: the hash of a few shared tuples within tuples may take for ever."""

    def checked(unpickler: Any) -> None:
        if any(isinstance(key, tuple) for key in unpickler.stack[keys]):
            raise InputError("a key of a dict is a tuple, and a dump has texts there")
        load(unpickler)

    return checked


class _PlainUnpickler(pickle._Unpickler):
    """Reads numbers, texts, lists, tuples and dicts. A pickle that names any function or class is
    refused before it can run anything.

    It is the unpickler in Python: that in C takes as much memory as a damaged file asks for.
    """

    dispatch: ClassVar[dict[int, Callable[..., None]]] = {
        code: load for code, load in pickle._Unpickler.dispatch.items() if code not in _OBJECTS
    } | {
        code[0]: _with_plain_keys(pickle._Unpickler.dispatch[code[0]], keys) for code, keys in _KEYS
    }

    def find_class(self, module: str, name: str) -> NoReturn:
        """Refuse."""
        words = f"{module}.{name}"[:60]
        raise InputError(f"it names {words!r}, and a dump holds plain values: do not trust it")

    def persistent_load(self, pid: object) -> NoReturn:
        """Refuse."""
        raise InputError("it refers to an object outside, and a dump holds plain values")


def unpickled(data: bytes, name: str) -> object:
    """The value of a pickle of plain values. Raises InputError for anything else."""
    try:
        return _PlainUnpickler(io.BytesIO(data)).load()
    except InputError as error:
        raise InputError(f"{name}: {error}") from None
    except (
        pickle.UnpicklingError,
        struct.error,
        ArithmeticError,
        AssertionError,
        AttributeError,
        EOFError,
        ImportError,
        LookupError,
        MemoryError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        raise InputError(f"{name} is no pickle, or damaged: {str(error)[:80]}") from None


def read_dump(content: object, rank: int, name: str) -> RankTrace:
    """The calls in a dump of a rank, from the value that its file `name` holds: versions 2.0 and
    later, as FlightRecorderDetail.hpp writes them.

    A rank gets to a call when its CPU makes the call. The duration is there if the job measured it.
    Calls that torch coalesces have one number and, from 2.7 on, entries that never end. Then the
    entry "coalesced" says when they end, and they count as one call.

    Raises InputError for a value that is no dump.
    """
    entries = content.get("entries") if isinstance(content, dict) else None
    # JSON has no entries if there are none
    if isinstance(content, dict) and "version" in content and "entries" not in content:
        entries = []
    if not isinstance(content, dict) or not isinstance(entries, list):
        raise InputError(f"{name} is no dump of the flight recorder: it has no list of entries")
    version = content.get("version", "2")
    if not isinstance(version, str) or version.partition(".")[0] != "2":
        raise InputError(f"{name} has the version {shown(version)}: versions 2 are known")
    if len(entries) > MOST_ENTRIES:
        raise InputError(f"{name} has {len(entries)} entries: at most {MOST_ENTRIES}")
    groups, frames = _groups(content.get("pg_config")), dict[tuple[str, str, int], MeasuredCall]()
    calls = dict[tuple[str, str, int], MeasuredCall]()
    for number, entry in enumerate(entries):
        call = _call(entry, groups, f"{name}: entry {number}")
        if call is None:
            continue
        key = call.group, call.members, call.number
        if call.collective == "coalesced":
            frames[key] = call
        else:
            calls[key] = _together(calls[key], call) if key in calls else call
    for key in frames.keys() & calls.keys():
        calls[key] = calls[key]._replace(nanoseconds=frames[key].nanoseconds, done=frames[key].done)
    return RankTrace(rank, name, [*calls.values()], records_all=True)


def _together(first: MeasuredCall, second: MeasuredCall) -> MeasuredCall:
    """Two calls that torch coalesces, as one."""
    known = first.nbytes is not None and second.nbytes is not None
    alike = first.collective == second.collective
    return first._replace(
        collective=first.collective if alike else "several",
        nbytes=(first.nbytes or 0.0) + (second.nbytes or 0.0) if known else None,
        done=first.done and second.done,
    )


def _call(entry: object, groups: Mapping[tuple[str, str], str], where: str) -> MeasuredCall | None:
    """A collective, or the frame of several; None for a message."""
    if not isinstance(entry, dict):
        raise InputError(f"{where} is {shown(entry)}: expected an object")
    collective = collective_of(_text(entry, "profiling_name", where))
    if entry.get("is_p2p"):
        return None
    group = entry.get("process_group")
    if (
        not isinstance(group, list | tuple)
        or not 0 < len(group) <= 2
        or not all(isinstance(text, str) for text in group)
    ):
        raise InputError(f"{where} has the process_group {shown(group)}: expected name and text")
    label = (group[0], group[1] if len(group) > 1 else "")
    members = groups.get(label, "")
    taken = tensor_bytes(entry.get("input_sizes"), entry.get("input_dtypes"))
    given = tensor_bytes(entry.get("output_sizes"), entry.get("output_dtypes"))
    milliseconds = entry.get("duration_ms")
    timed = isinstance(milliseconds, int | float) and 0 <= milliseconds < 1e12
    return MeasuredCall(
        ":".join(text for text in label if text and text != "undefined")[:80],
        _whole(entry, "collective_seq_id", where),
        collective,
        size_of(collective, taken, given),
        members.count(",") + 1 if members else 0,
        _whole(entry, "time_created_ns", where),
        round(float(milliseconds or 0) * 1e6) if timed else None,
        entry.get("state") == "completed",
        members=members,
    )


def _text(entry: Mapping[str, Any], key: str, where: str) -> str:
    value = entry.get(key)
    if not isinstance(value, str):
        raise InputError(f"{where} has the {key} {shown(value)}: expected a text")
    return value


def _whole(entry: Mapping[str, Any], key: str, where: str) -> int:
    value = entry.get(key)
    if not is_count(value):
        raise InputError(f"{where} has the {key} {shown(value)}: expected a whole number")
    return value


def _groups(config: object) -> dict[tuple[str, str], str]:
    """The ranks of each group by its name and its description, like "0, 1", where the dump has them
    as text like "[0, 1]"."""
    ranks, groups = dict[str, str](), dict[tuple[str, str], str]()
    for name, about in config.items() if isinstance(config, dict) else ():
        text = about.get("ranks") if isinstance(about, dict) else None
        if isinstance(name, str) and isinstance(text, str):
            if text not in ranks:
                parts = [part.strip() for part in text.strip("[]").split(",")]
                whole = all(part.isdecimal() and len(part) < 8 for part in parts)
                ranks[text] = ", ".join(map(str, sorted({*map(int, parts)}))) if whole else ""
            groups[name, as_text(about.get("desc", ""))] = ranks[text]
    return groups
