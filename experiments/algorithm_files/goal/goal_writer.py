"""Write a schedule as GOAL's text."""

from __future__ import annotations

from collections import defaultdict

from simulator.schedules.schedule import COMPUTE, Schedule
from topologies.errors import InputError


def write_goal(schedule: Schedule, name: str) -> str:
    """A schedule as GOAL. Every message has a tag of its own, so that no receive takes another
    message.

    Merges and copies within a rank take no time. Raises InputError if an operation waits for one of
    other ranks.
    """
    if schedule.switches:
        raise InputError(f"{name} cannot be a GOAL file: switches reduce in it, GOAL has ranks")
    lines: dict[int, list[str]] = defaultdict(list)
    labels: list[dict[int, str]] = []
    columns = zip(
        schedule.kind.tolist(),
        schedule.rank.tolist(),
        schedule.peer.tolist(),
        schedule.nbytes.tolist(),
        schedule.seconds.tolist(),
        schedule.lane.tolist(),
        strict=True,
    )
    for number, (kind, rank, peer, nbytes, seconds, lane) in enumerate(columns):
        if rank == peer:
            cpu = f" cpu {lane}" if kind == COMPUTE and lane else ""
            label = {rank: f"c{number}"}
            lines[rank].append(f"c{number}: calc {round(seconds * 1e9)}{cpu}")
        else:
            label = {rank: f"s{number}", peer: f"r{number}"}
            size = max(1, round(nbytes))
            lines[rank].append(f"s{number}: send {size}b to {peer} tag {number}")
            lines[peer].append(f"r{number}: recv {size}b from {rank} tag {number}")
        for earlier in schedule.predecessors(number).tolist():
            shared = [end for end in label if end in labels[earlier]]
            if not shared:
                raise InputError(
                    f"{name} cannot be a GOAL file: operation {number} from rank {rank} to {peer} "
                    f"waits for an operation of other ranks"
                )
            for end in shared:
                lines[end].append(f"{label[end]} requires {labels[earlier][end]}")
        labels.append(label)
    blocks = ("\n".join([f"rank {rank} {{", *lines[rank], "}"]) for rank in range(schedule.ranks))
    return "\n\n".join([f"num_ranks {schedule.ranks}", *blocks, ""])
