"""Reading Chrome traces as Perfetto does."""

from collections import defaultdict
from typing import Any

Event = dict[str, Any]


def slices(trace: dict[str, Any], track: str = "") -> list[Event]:
    """Complete events, of the tracks whose name begins so."""
    names = {
        e["tid"]: e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "thread_name"
    }
    return [e for e in trace["traceEvents"] if e["ph"] == "X" and names[e["tid"]].startswith(track)]


def nanoseconds(microseconds: float) -> int:
    """As Perfetto reads it: `static_cast<int64_t>(value.asDouble() * 1000)`."""
    return int(microseconds * 1000)


def assert_disjoint(trace: dict[str, Any]) -> None:
    """In the order of the file, nothing on a track begins before the end of what came before."""
    free: dict[tuple[int, int], int] = defaultdict(int)
    for event in slices(trace):
        begin, track = nanoseconds(event["ts"]), (event["pid"], event["tid"])
        assert begin >= free[track]
        free[track] = begin + nanoseconds(event["dur"])


def covering(trace: dict[str, Any], arrow: Event) -> Event:
    """What is on the track of an end of an arrow at its time."""
    time = nanoseconds(arrow["ts"])
    (slice_,) = [
        event
        for event in slices(trace)
        if (event["pid"], event["tid"]) == (arrow["pid"], arrow["tid"])
        and nanoseconds(event["ts"]) <= time < nanoseconds(event["ts"]) + nanoseconds(event["dur"])
    ]
    return slice_
