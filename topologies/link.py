"""What a message costs on a link."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Link:
    """One direction of a link: n bytes occupy it for gap + n / bandwidth seconds and arrive
    latency seconds later."""

    bandwidth: float
    """β in bytes a second."""
    latency: float = 0.0
    """α in seconds."""
    gap: float = 0.0
    """g in seconds a message."""
