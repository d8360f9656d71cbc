"""When a device does its work."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import torch


class DeviceClock:
    """Times of a device: the processor's clock, or events on the GPU's stream."""

    def __init__(self, device: torch.device) -> None:
        self._on_gpu = device.type == "cuda"

    def stamp(self) -> Any:
        """The moment at which the device reaches this point of its work."""
        if not self._on_gpu:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def since(self, first: Any, stamps: Iterable[Any]) -> list[float]:
        """Seconds from `first` to each of `stamps`. Waits until the device has reached the last."""
        if not self._on_gpu:
            return [stamp - first for stamp in stamps]
        torch.cuda.synchronize()
        return [first.elapsed_time(stamp) / 1e3 for stamp in stamps]
