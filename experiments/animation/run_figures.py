"""What has been moved and what is redundant at a moment of an animation."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from experiments.animation.film import Act, Film
from topologies.units import format_bytes, format_seconds


class Measures(NamedTuple):
    """Figures of a run up to a moment."""

    seconds: float
    nbytes: float
    busbw: float
    """In bytes per second: the share of all bytes that has been sent stands for the share of V."""
    redundant: float
    """Bytes of duplicate data over all ranks."""

    @property
    def words(self) -> str:
        """The figures in a line."""
        rate = f"{self.busbw / 1e9:.4g} GB/s" if self.busbw else "none"
        return (
            f"time {format_seconds(self.seconds)}    moved {format_bytes(self.nbytes, True)}    "
            f"busbw {rate}    redundant {format_bytes(self.redundant, True)}"
        )


def measures(film: Film, act: Act, moment: float) -> Measures:
    """The figures of a run at a moment of an act."""
    clock, schedule = act.clock, film.schedule
    simulated = film.acts["simulated time"].clock.marks
    begin = clock.marks[:-1]
    reached = np.stack((begin, begin + clock.part * np.diff(clock.marks)), axis=1).ravel()
    known = np.stack((simulated[:-1], simulated[1:]), axis=1).ravel()
    seconds = float(np.interp(moment, reached, known))
    length = clock.finish - clock.start
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(
            moment >= clock.finish, 1.0, np.clip((moment - clock.start) / length, 0.0, 1.0)
        )
    nbytes = np.where(schedule.remote, schedule.nbytes, 0.0)
    sent, total = float(nbytes @ share), float(nbytes.sum())
    busbw = film.busbw * film.timeline.makespan * sent / total / seconds if seconds and total else 0
    memory = film.memory
    step = max(0, int(np.searchsorted(memory.times, seconds * (1 + 1e-9), side="right")) - 1)
    return Measures(seconds, sent, 0.0 if film.wrong else busbw, float(memory.redundant[step]))
