"""A rank that `simctl measure --nproc` starts: it reports through a pipe to its parent."""

from __future__ import annotations

import os
import sys
import threading
import warnings
from dataclasses import asdict
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from experiments.measure.blame import complaint
from experiments.measure.launcher import Place
from experiments.measure.points import Plan, Point
from topologies.errors import InputError

if TYPE_CHECKING:
    from experiments.measure.result_rows import ResultRow

Event = dict[str, Any]


class Parent:
    """Reports to the parent. Each event is a dictionary with one key, the kind of event."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self.point = "at the start"

    def at(self, point: Point) -> None:
        """Send where this rank is."""
        self.point = f"in {point}"
        self.tell({"at": self.point})

    def row(self, row: ResultRow) -> None:
        """Send a measured row."""
        self.tell({"row": asdict(row)})

    def tell(self, event: Event) -> None:
        """Send any event."""
        self._pipe.send(event)


def main() -> None:
    """Work as the arguments say: a file descriptor to write to, the rank, the plan."""
    parent, rank, plan = (
        Parent(Connection(int(sys.argv[1]))),
        int(sys.argv[2]),
        Plan.from_json(sys.argv[3]),
    )
    threading.Thread(target=_end_with_parent, daemon=True).start()
    warnings.simplefilter("ignore")
    try:
        _measure(plan, Place(rank, plan.ranks, rank), parent)
    except InputError as error:
        parent.tell({"refused": str(error)})
        os._exit(2)
    except BaseException as error:
        parent.tell({"failed": complaint(parent.point, error)})
        os._exit(1)
    parent.tell({"done": rank})
    threading.Event().wait()


def _measure(plan: Plan, place: Place, parent: Parent) -> None:
    from experiments.measure.ranks import find_device, go_through, join, site_of

    device = find_device(plan, place.local)
    _, nodes = join(plan, place, device)
    go_through(plan, plan.points, site_of(plan, place, device), nodes, parent)


def _end_with_parent() -> None:
    """End when standard input closes: the parent holds its other end."""
    os.read(sys.stdin.fileno(), 1)
    os._exit(0)
