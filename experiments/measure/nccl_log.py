"""What NCCL says that it runs while it is measured: its lines on tuning at rank 0."""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from functools import partial

from experiments.measure.points import MeasurementPoint
from experiments.measurements.formats.log_settings import Choices, add_choice, labels_of

DEBUG = "NCCL_DEBUG"


class NcclLog:
    """A file without a name to which NCCL writes, and which ends with the process."""

    def __init__(self, environment: MutableMapping[str, str]) -> None:
        """NCCL reads the environment when it is first used. If the user has set its messages, they
        stay as they are, and nothing is known."""
        self.file: int | None = None
        if DEBUG not in environment:
            self.file = os.memfd_create("nccl")
            asked = {"": "INFO", "_SUBSYS": "TUNING", "_FILE": f"/proc/self/fd/{self.file}"}
            environment.update({f"{DEBUG}{name}": value for name, value in asked.items()})

    def ran(self, point: MeasurementPoint, ranks: int) -> str:
        """The algorithm and the protocol that ran in a point since the last one, like "ring LL128";
        empty if NCCL does not say, or says several."""
        choices: Choices = {}
        for line in self._lines():
            add_choice(choices, line)
        labels = labels_of(choices, point.collective, ranks, [point.size_bytes])
        return " ".join(labels.get(point.size_bytes, ()))

    def _lines(self) -> list[str]:
        """What is new."""
        if self.file is None:
            return []
        parts = iter(partial(os.read, self.file, 2**16), b"")
        return b"".join(parts).decode(errors="replace").splitlines()
