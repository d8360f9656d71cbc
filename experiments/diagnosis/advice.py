"""What to try, by symptom: only what fits it."""

from __future__ import annotations

from collections.abc import Iterable

from experiments.diagnosis.findings import Finding
from experiments.diagnosis.samples import uses_mpi
from experiments.measurements import Curve, Failure

_NCCL = {
    "wrong result": "wrong sums are never noise: repeat with NCCL_PROTO=^LL128, then Simple; if they stay, test each "
    "node's GPU memory and links alone",
    "bump": "repeat these sizes with NCCL_PROTO=Simple, LL128, LL and NCCL_ALGO=Ring, Tree in turn: the choice that is "
    "smooth names what is at fault; a single size that is slow only once is noise: more iterations (-n 100)",
    "slow start": "give it more warm-up (-w 50) and fixed clocks (nvidia-smi -lgc); if it stays, small messages take "
    "another path: compare NCCL_PROTO=LL with the default",
    "plateau drops": "compare NCCL_ALGO=Ring with Tree at the largest sizes, watch clocks and port counters "
    "(nvidia-smi dmon, perfquery) for throttling and congestion, and repeat on other nodes",
    "in place differs": "the two should be alike: repeat with more iterations (-n 100) at a quiet time; what stays is "
    "the registration of one of the buffers (NCCL_LOCAL_REGISTER=0)",
    "far below": "see in NCCL_DEBUG=INFO that every NIC is used (NET/IB lines, NCCL_IB_HCA), over GPUDirect RDMA "
    "(NCCL_NET_GDR_LEVEL=PXB or SYS), with enough channels (NCCL_MIN_NCHANNELS), each rank on the cores near its GPU",
    "far below in a node": "see in NCCL_DEBUG=INFO that channels go via P2P and not SHM (NCCL_P2P_LEVEL, PCIe ACS off)"
    ", and in nvidia-smi nvlink -s that all links are up",
    "costly switch": "force what ran at the smaller size (NCCL_ALGO, NCCL_PROTO) to see whether it is faster here",
    "slower set-up": "let the two environments differ in one variable at a time (NCCL_*, FI_*, UCX_*), at the sizes "
    "named",
}
_MPI = {
    "wrong result": "wrong sums are never noise: repeat with another algorithm and transport (UCX_TLS), then test each "
    "node's memory alone",
    "bump": "move the eager limit past these sizes, or before them (UCX_RNDV_THRESH, I_MPI_EAGER_THRESHOLD); "
    "with GPU buffers see that gdr_copy and cuda_ipc are in UCX_TLS",
    "slow start": "give it more warm-up (osu: -x 1000) and fixed clocks",
    "plateau drops": "repeat on other nodes and at a quiet time; watch the ports' counters for congestion",
    "far below": "see that all rails are used (UCX_NET_DEVICES, UCX_MAX_RNDV_RAILS) and ranks are bound near their NIC",
    "costly switch": "force the algorithm of the smaller size (Open MPI: coll_tuned_use_dynamic_rules 1 and "
    "coll_tuned_COLLECTIVE_algorithm; MPICH: MPIR_CVAR_..._INTRA_ALGORITHM)",
    "in place differs": _NCCL["in place differs"].partition(";")[0],
    "slower set-up": _NCCL["slower set-up"],
}
_SLINGSHOT = (
    "on Slingshot the eager and rendezvous limits of libfabric decide here: FI_CXI_RDZV_THRESHOLD, "
    "FI_CXI_RDZV_EAGER_SIZE, FI_CXI_RX_MATCH_MODE=software or hybrid, FI_MR_CACHE_MONITOR=userfaultfd, "
    "FI_CXI_DISABLE_HOST_REGISTER=1; and a newer aws-ofi-nccl"
)


_FAILED = {
    "test died": "run this test alone with NCCL_DEBUG=WARN: the first warning names the rank and the cause; where a "
    "test hangs, look for a firewall, a wrong network interface or a dead link",
    "without MPI": "build nccl-tests with make MPI=1, and start it with the mpirun or srun of that MPI: each process "
    "must list the devices of all ranks",
}


def remedies(failures: Iterable[Failure]) -> tuple[str, ...]:
    """A line for each kind of failure."""
    return tuple(_FAILED[kind] for kind in dict.fromkeys(failure.kind for failure in failures))


def advice(curve: Curve, findings: Iterable[Finding]) -> tuple[str, ...]:
    """A line for each kind of finding, in their order."""
    said = _MPI if uses_mpi(curve) else _NCCL
    kinds = dict.fromkeys(finding.kind for finding in findings)
    lines = [said[kind] for kind in kinds if kind in said]
    if "bump" in kinds and on_slingshot(curve):
        lines.append(_SLINGSHOT)
    return tuple(lines)


def on_slingshot(curve: Curve) -> bool:
    """Whether the network is Slingshot, as far as the file tells."""
    words = f"{curve.machine} {curve.topology} {' '.join(curve.notes)} {curve.source}".lower()
    return any(word in words for word in ("slingshot", "cxi", "aws-ofi", "ofi"))
