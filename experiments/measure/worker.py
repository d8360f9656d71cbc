"""A rank that `simctl measure --p` starts: it reports through a pipe to its parent."""

from __future__ import annotations

import os
import pickle
import sys
import threading
import warnings
from collections.abc import Iterator
from dataclasses import asdict
from multiprocessing.connection import Connection
from typing import Any

from experiments.measure.launcher import RankPlace, complaint
from experiments.measure.points import MeasurementPlan
from topologies.errors import InputError


def main() -> None:
    """Work as the arguments say: a file descriptor to write to, the rank, the plan.

    Each event that is sent is a dictionary with one key, the kind of event.
    """
    parent, rank = Connection(int(sys.argv[1])), int(sys.argv[2])
    threading.Thread(target=_end_with_parent, daemon=True).start()
    warnings.simplefilter("ignore")
    where = "at the start"
    try:
        for event in _measured(pickle.loads(bytes.fromhex(sys.argv[3])), rank):
            parent.send(event)
            where = event.get("at", where)
    except InputError as error:
        parent.send({"refused": str(error)})
        os._exit(2)
    except BaseException as error:
        parent.send({"failed": complaint(where, error)})
        os._exit(1)
    parent.send({"done": rank})
    threading.Event().wait()


def _measured(plan: MeasurementPlan, rank: int) -> Iterator[dict[str, Any]]:
    """The points of the plan: where this rank is, and the rows of rank 0."""
    from experiments.measure.ranks import begin, go_through

    site, _, nodes = begin(plan, RankPlace(rank, plan.ranks, rank))
    for event in go_through(plan, plan.points, site, nodes):
        yield {"at": event} if isinstance(event, str) else {"row": asdict(event)}


def _end_with_parent() -> None:
    """End when standard input closes: the parent holds its other end."""
    os.read(sys.stdin.fileno(), 1)
    os._exit(0)
