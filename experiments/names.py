"""What ranks are called in reports, pictures and traces."""

from __future__ import annotations

from simulator.schedules.schedule import Schedule


def rank_name(schedule: Schedule, rank: int) -> str:
    """What a rank is called: "rank 3", "server", "switch 1"."""
    servers = schedule.ranks - schedule.workers - schedule.switches
    if rank < schedule.workers:
        return f"rank {rank}"
    if rank < schedule.workers + servers:
        return "server" if servers == 1 else f"server {rank - schedule.workers}"
    return f"switch {rank - schedule.workers - servers}"
