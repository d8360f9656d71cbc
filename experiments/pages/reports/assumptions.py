"""What simulated answers take for granted, in sentences."""

from __future__ import annotations

from simulator.profile import Profile
from topologies.catalogue import BANDWIDTH, LATENCY, Blueprint
from topologies.units import format_bandwidth, format_seconds


def assumptions(machine: Blueprint, *, profile: Profile | None) -> list[str]:
    """What is missing without a `profile`, and links that nobody measured or described."""
    lines = []
    if machine.has_default_links and not _has_measured_links(profile):
        lines.append(
            f"The links of {machine.text} have the default bandwidth {format_bandwidth(BANDWIDTH)} "
            f"and latency {format_seconds(LATENCY)}, not those of your machine. Give --bandwidth "
            "and --latency, or a machine as --topology."
        )
    if not profile:
        lines.append(
            "These times do not include the library's software, which starts collectives and sends "
            "messages. Real small messages are slower: --profile or --library includes the "
            "software."
        )
    return lines


def _has_measured_links(profile: Profile | None) -> bool:
    """Whether links are of a calibrated profile. A library has those of the topology."""
    if profile is None:
        return False
    return profile.uncertainty is None or len(profile.uncertainty.residuals.seen) > 0
