"""Parameter server: the workers push, one rank adds up, the workers pull."""

import numpy as np

from simulator.collectives.collective import ALL_REDUCE, Algorithm
from simulator.cost_models import servers
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder


def parameter_server_all_reduce(ranks: int, nbytes: float) -> Schedule:
    """Rank 0 is both worker and server: p - 1 pushes into its port, p - 1 pulls out of it."""
    server = ScheduleBuilder(ranks, nbytes, phase="push")
    workers = np.arange(1, ranks)
    server.reduce(workers, 0, slot=0)
    server.phase("pull")
    server.copy(0, workers, slot=0)
    return server.build()


def parameter_server_apart_all_reduce(ranks: int, nbytes: float) -> Schedule:
    """With a separate server. The first push lands in its buffer; the others land in scratch and
    are added to it."""
    server = ScheduleBuilder(ranks, nbytes, scratch=ranks - 1, servers=1, phase="push")
    workers, inboxes = np.arange(ranks), np.arange(1, ranks)
    server.copy(workers, ranks, slot=0, target=workers)
    server.phase("merge")
    server.reduce(ranks, np.full(ranks - 1, ranks), slot=inboxes, target=0)
    server.phase("pull")
    server.copy(ranks, workers, slot=0)
    return server.build()


ALGORITHMS = (
    Algorithm(
        "parameter_server",
        ALL_REDUCE,
        parameter_server_all_reduce,
        servers.PARAMETER_SERVER,
        "all ranks send to rank 0, which adds up and sends back",
    ),
    Algorithm(
        "parameter_server_apart",
        ALL_REDUCE,
        parameter_server_apart_all_reduce,
        servers.PARAMETER_SERVER_APART,
        "all ranks send to a separate server, which adds up and sends back",
        servers=1,
    ),
)
