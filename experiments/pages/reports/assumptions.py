"""What simulated answers take for granted, in sentences."""

from __future__ import annotations

from topologies.catalogue import BANDWIDTH, LATENCY, Blueprint
from topologies.units import format_bandwidth, format_seconds


def assumptions(machine: Blueprint, *, profile: bool) -> list[str]:
    """What is missing without a `profile`, and links that the user did not describe."""
    lines = []
    if machine.has_default_links:
        lines.append(
            f"The links of {machine.text} are not yours: they have the default bandwidth "
            f"{format_bandwidth(BANDWIDTH)} and latency {format_seconds(LATENCY)}. Give "
            "--bandwidth and --latency, or a machine as --topology."
        )
    if not profile:
        lines.append(
            "The library's software costs no time here, neither to start a collective nor to send "
            "a message. Real small messages are slower: --profile includes that."
        )
    return lines
