"""What a case costs: seconds of this process and memory at its peak, and an end to what hangs."""

import resource
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

SECONDS = 5.0
MEGABYTES = 500.0
"""The most that one case may cost: time of this process's CPU, and memory beyond what is held
already."""
HANGS = 120
"""Seconds of the clock after which a case has hung."""
_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


@dataclass
class Cost:
    """Seconds of CPU and megabytes."""

    seconds: float = 0.0
    megabytes: float = 0.0

    def excess(self, timed: bool = True) -> str:
        """What is beyond the limits, in words; time counts if `timed`."""
        if timed and self.seconds > SECONDS:
            return f"{self.seconds:.1f} s of CPU"
        return f"{self.megabytes:.0f} MB" if self.megabytes > MEGABYTES else ""


class Hung(Exception):
    """A case did not end."""


@contextmanager
def counted() -> Iterator[Cost]:
    """The cost of the block, known at its end. Raises Hung in the block where it does not end."""
    cost, peak_before, start = Cost(), _forget_peak(), time.process_time()
    before = signal.signal(signal.SIGALRM, _hung)
    signal.alarm(HANGS)
    try:
        yield cost
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        cost.seconds = time.process_time() - start
        cost.megabytes = max(0.0, _memory("VmHWM") - peak_before)


def _hung(*_: object) -> None:
    raise Hung(f"no end after {HANGS} s")


def _forget_peak() -> float:
    """The megabytes that the process holds; from here on they are its peak, where Linux allows
    that."""
    try:
        _RESET.write_text("5")
    except OSError:
        return _memory("VmHWM")
    return _memory("VmRSS")


def _memory(name: str) -> float:
    """Megabytes in the line of that name, of Linux; elsewhere the peak since the process began."""
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    return next(float(line.split()[1]) / 1e3 for line in lines if line.startswith(f"{name}:"))
