"""What simulated answers take for granted, in sentences."""

from __future__ import annotations

from topologies.catalogue import BANDWIDTH, LATENCY, Blueprint
from topologies.units import format_bandwidth, format_seconds


def assumptions(machine: Blueprint, *, profile: bool) -> list[str]:
    """What is missing without a `profile`, and links that the user did not describe."""
    lines = []
    if machine.has_default_links:
        lines.append(
            f"The links of {machine.text} have the default bandwidth {format_bandwidth(BANDWIDTH)} "
            f"and latency {format_seconds(LATENCY)}, not those of your machine. Give --bandwidth "
            "and --latency, or a machine as --topology."
        )
    if not profile:
        lines.append(
            "These times do not include the library's software, which starts collectives and sends "
            "messages. Real small messages are slower: --profile includes the software."
        )
    return lines
