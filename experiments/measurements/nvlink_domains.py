"""Hosts whose GPUs one NVLink domain joins: they are trays of it, and together they are a node."""

import re
from dataclasses import replace

from experiments.measurements.curve import TRAYS, Curve
from experiments.output import counted

TRAY, DOMAIN = 4, 72
"""The most GPUs of a tray, and of a domain."""


def domains(curve: Curve) -> int:
    """As few domains as hold the ranks, if nodes are likely trays of GB200 or GB300; else 0."""
    ranks, hosts = curve.ranks or 0, curve.nodes or 0
    joined = re.search(r"\bGB[23]00\b(?! NVL4)", f"{curve.device} {curve.machine} {curve.topology}")
    nodes = -(-ranks // DOMAIN)
    return nodes if joined and nodes < hosts and ranks <= TRAY * hosts else 0


def in_domains(curve: Curve, log: str) -> Curve:
    """The curve with domains for nodes, if its hosts are trays and its log does not say that NCCL
    takes each as a node."""
    if not (nodes := domains(curve)) or re.search(
        r"NCCL_MNNVL_ENABLE(?:=| set by environment to )['\"]?0|\bMNNVL 0\b", log
    ):
        return curve
    note = (
        f"{curve.nodes} hosts with {curve.device} {TRAYS} of {counted(nodes, 'NVLink domain')} of "
        f"up to {DOMAIN} GPUs: NCCL_MNNVL_ENABLE=0 in the log says that they are nodes"
    )
    per_node, rest = divmod(curve.ranks or 0, nodes)
    notes = (*curve.notes, note)
    return replace(curve, nodes=nodes, gpus_per_node=None if rest else per_node, notes=notes)
