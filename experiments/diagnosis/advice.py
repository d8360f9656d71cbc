"""What to try, by symptom: only what fits it, and only variables that are not set already."""

from __future__ import annotations

import re
from collections.abc import Iterable

from experiments.diagnosis.findings import Finding
from experiments.diagnosis.samples import uses_mpi
from experiments.measurements import Curve, Failure
from experiments.measurements.networks import EFA, SLINGSHOT

_NCCL = {
    "wrong result": "wrong sums are never noise: [NCCL_PROTO|repeat with NCCL_PROTO=^LL128, then Simple; if they "
    "stay, ]test each node's GPU memory and links alone",
    "bump": "[NCCL_PROTO|repeat these sizes with NCCL_PROTO=Simple, LL128, LL in turn: the choice that is smooth names "
    "what is at fault; ][NCCL_ALGO|repeat them with NCCL_ALGO=Ring and Tree; ]a single size that is slow only once is "
    "noise: more iterations (-n 100)",
    "slow start": "give it more warm-up (-w 50) and fixed clocks (nvidia-smi -lgc)[NCCL_PROTO|; if it stays, small "
    "messages take another path: compare NCCL_PROTO=LL with the default]",
    "plateau drops": "[NCCL_ALGO|compare NCCL_ALGO=Ring with Tree at the largest sizes, ]watch clocks and port "
    "counters (nvidia-smi dmon, perfquery) for throttling and congestion, and repeat on other nodes",
    "in place differs": "the two should be alike: repeat with more iterations (-n 100) at a quiet time"
    "[NCCL_LOCAL_REGISTER|; what stays is the registration of one of the buffers (NCCL_LOCAL_REGISTER=0)]",
    "far below": "see in NCCL's lines[NCCL_DEBUG| (NCCL_DEBUG=INFO)] that every NIC is used (NET/IB"
    "[NCCL_IB_HCA|, NCCL_IB_HCA]), over GPUDirect RDMA[NCCL_NET_GDR_LEVEL| (NCCL_NET_GDR_LEVEL=PXB or SYS)], with "
    "enough channels[NCCL_MIN_NCHANNELS| (NCCL_MIN_NCHANNELS)], each rank on the cores near its GPU",
    "far below in a node": "see in NCCL's lines[NCCL_DEBUG| (NCCL_DEBUG=INFO)] that channels go via P2P and not SHM "
    "([NCCL_P2P_LEVEL|NCCL_P2P_LEVEL, ]PCIe ACS off), and in nvidia-smi nvlink -s that all links are up",
    "costly switch": "force what ran at the smaller size ([NCCL_ALGO|NCCL_ALGO|algorithm], "
    "[NCCL_PROTO|NCCL_PROTO|protocol]) to see whether it is faster here",
    "slower set-up": "let the two environments differ in one variable at a time (NCCL_*, FI_*, UCX_*), at the sizes "
    "named",
}
_MPI = {
    "wrong result": "wrong sums are never noise: repeat with another algorithm and transport[UCX_TLS| (UCX_TLS)], then "
    "test each node's memory alone",
    "bump": "move the eager limit past these sizes, or before them[UCX_RNDV_THRESH| (UCX_RNDV_THRESH)]"
    "[I_MPI_EAGER_THRESHOLD| (I_MPI_EAGER_THRESHOLD)]; with GPU buffers see that gdr_copy and cuda_ipc are "
    "[UCX_TLS|in UCX_TLS|used]",
    "slow start": "give it more warm-up (osu: -x 1000) and fixed clocks",
    "plateau drops": "repeat on other nodes and at a quiet time; watch the ports' counters for congestion",
    "far below": "see that all rails are used[UCX_NET_DEVICES| (UCX_NET_DEVICES)][UCX_MAX_RNDV_RAILS| "
    "(UCX_MAX_RNDV_RAILS)] and ranks are bound near their NIC",
    "costly switch": "force the algorithm of the smaller size (Open MPI: coll_tuned_use_dynamic_rules 1 and "
    "coll_tuned_COLLECTIVE_algorithm; MPICH: MPIR_CVAR_..._INTRA_ALGORITHM)",
    "in place differs": "the two should be alike: repeat with more iterations (-n 100) at a quiet time",
    "slower set-up": _NCCL["slower set-up"],
}
_FAILED = {
    "test died": "run this test alone with all warnings on: the first one names the rank and the cause; where a test "
    "hangs, look for a firewall, a wrong network interface or a dead link",
    "without MPI": "build nccl-tests with make MPI=1, and start it with the mpirun or srun of that MPI: each process "
    "must list the devices of all ranks",
}
_CXI = {
    "FI_CXI_RDZV_THRESHOLD": "",
    "FI_CXI_RDZV_EAGER_SIZE": "",
    "FI_CXI_RX_MATCH_MODE": "=software or hybrid",
    "FI_MR_CACHE_MONITOR": "=userfaultfd",
    "FI_CXI_DISABLE_HOST_REGISTER": "=1",
}
"""What decides on Slingshot how messages are sent, and values to try."""
_CHOICE = re.compile(r"\[([A-Z_0-9]+)\|([^|\]]*)\|?([^\]]*)\]")
"""A variable, what is said where it is not set, and what is said where it is."""


def remedies(failures: Iterable[Failure]) -> tuple[str, ...]:
    """A line for each kind of failure."""
    return tuple(_FAILED[kind] for kind in dict.fromkeys(failure.kind for failure in failures))


def advice(curve: Curve, findings: Iterable[Finding]) -> tuple[str, ...]:
    """A line for each kind of finding, in their order. It names no variable that the curve's file sets."""
    said, known = _MPI if uses_mpi(curve) else _NCCL, _set(curve)
    findings = tuple(findings)
    kinds = dict.fromkeys(finding.kind for finding in findings)
    sick = {finding.kind for finding in findings if finding.alarm}
    lines = [_chosen(said[kind], known) for kind in kinds if kind in said]
    if curve.network in (SLINGSHOT, EFA):
        lines = [line.replace("(NET/IB, NCCL_IB_HCA)", "(NET/OFI)").replace("(NET/IB)", "(NET/OFI)") for line in lines]
    if curve.network == SLINGSHOT and curve.nodes != 1 and not sick.isdisjoint(("bump", "costly switch")):
        lines.append(_on_slingshot(curve, known))
    return tuple(line for line in lines if line)


def _set(curve: Curve) -> set[str]:
    """The variables that are set, an algorithm and a protocol that are forced included."""
    forced = {"NCCL_ALGO": curve.algorithm, "NCCL_PROTO": curve.protocol}
    return {*curve.variables, *(name for name, value in forced.items() if value)}


def _chosen(text: str, known: set[str]) -> str:
    return _CHOICE.sub(lambda choice: choice[3] if choice[1] in known else choice[2], text)


def _on_slingshot(curve: Curve, known: set[str]) -> str:
    names = [f"{name}{value}" for name, value in _CXI.items() if name not in known]
    limits = [f"the eager and rendezvous limits of libfabric decide here: {', '.join(names)}"] if names else []
    newer = [] if uses_mpi(curve) else ["try a newer aws-ofi-nccl"]
    return f"on Slingshot {'; '.join([*limits, *newer])}" if limits or newer else ""
