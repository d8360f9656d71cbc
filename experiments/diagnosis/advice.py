"""What to try, by kind of finding: only variables that are not set already."""

from __future__ import annotations

from collections.abc import Iterable

from experiments.diagnosis.findings import Finding, FindingKind
from experiments.measurements import Curve, Failure
from experiments.measurements.networks import EFA, SLINGSHOT

REMEDIES = {
    "test died": "run this test alone with all warnings on: the first one names "
    "the rank and the cause; where a test hangs, look for "
    "a firewall, a wrong network interface or a dead link",
    "without MPI": "build nccl-tests with make MPI=1, and start it with the mpirun or srun of "
    "that MPI: each process must list the devices of all ranks",
}
SLINGSHOT_VARIABLES = {
    "FI_CXI_RDZV_THRESHOLD": "",
    "FI_CXI_RDZV_EAGER_SIZE": "",
    "FI_CXI_RX_MATCH_MODE": "=software or hybrid",
    "FI_MR_CACHE_MONITOR": "=userfaultfd",
    "FI_CXI_DISABLE_HOST_REGISTER": "=1",
}
"""Variables that decide how Slingshot sends messages, and values to try."""
UNFORCED = "repeat without the algorithm and the protocol that are forced here"

Parts = tuple[str | tuple[str, str], ...]
"""The parts of a line. A pair is a variable and a text that is left out where the variable is
set."""
IN_PLACE = "the two should be alike: repeat with more iterations (-n 100) at a quiet time"
SLOWER: Parts = ("change one variable at a time (NCCL_*, FI_*, UCX_*), at the sizes named",)
NCCL: dict[FindingKind, Parts] = {
    FindingKind.WRONG_RESULT: (
        "wrong sums are never noise: ",
        ("NCCL_PROTO", "repeat with NCCL_PROTO=^LL128, then Simple; if they stay, "),
        "test each node's GPU memory and links alone",
    ),
    FindingKind.SLOW_START: (
        "give it more warm-up (-w 50) and fixed clocks (nvidia-smi -lgc)",
        (
            "NCCL_PROTO",
            "; if it stays, small messages take another path: compare NCCL_PROTO=LL with the "
            "default",
        ),
    ),
    FindingKind.PLATEAU_DROPS: (
        ("NCCL_ALGO", "compare NCCL_ALGO=Ring with Tree at the largest sizes, "),
        "watch clocks and port counters (nvidia-smi dmon, perfquery) for throttling and "
        "congestion, and repeat on other nodes",
    ),
    FindingKind.IN_PLACE_DIFFERS: (
        IN_PLACE,
        (
            "NCCL_LOCAL_REGISTER",
            "; what stays is the registration of one of the buffers (NCCL_LOCAL_REGISTER=0)",
        ),
    ),
    FindingKind.FAR_BELOW: (
        "see in NCCL's lines",
        ("NCCL_DEBUG", " (NCCL_DEBUG=INFO)"),
        " that every NIC is used ({nics}), over GPUDirect RDMA",
        ("NCCL_NET_GDR_LEVEL", " (NCCL_NET_GDR_LEVEL=PXB or SYS)"),
        ", with enough channels",
        ("NCCL_MIN_NCHANNELS", " (NCCL_MIN_NCHANNELS)"),
        ", each rank on the cores near its GPU",
    ),
    FindingKind.FAR_BELOW_IN_A_NODE: (
        "see in NCCL's lines",
        ("NCCL_DEBUG", " (NCCL_DEBUG=INFO)"),
        " that channels go via P2P and not SHM (",
        ("NCCL_P2P_LEVEL", "NCCL_P2P_LEVEL, "),
        "PCIe ACS off), and in nvidia-smi nvlink -s that all links are up",
    ),
    FindingKind.SLOWER_SETUP: SLOWER,
}
MPI: dict[FindingKind, Parts] = {
    FindingKind.WRONG_RESULT: (
        "wrong sums are never noise: repeat with another algorithm and transport",
        ("UCX_TLS", " (UCX_TLS)"),
        ", then test each node's memory alone",
    ),
    FindingKind.BUMP: (
        "move the eager limit past these sizes, or before them",
        ("UCX_RNDV_THRESH", " (UCX_RNDV_THRESH)"),
        ("I_MPI_EAGER_THRESHOLD", " (I_MPI_EAGER_THRESHOLD)"),
        "; with GPU buffers see that gdr_copy and cuda_ipc are used",
    ),
    FindingKind.SLOW_START: ("give it more warm-up (osu: -x 1000) and fixed clocks",),
    FindingKind.PLATEAU_DROPS: (
        "repeat on other nodes and at a quiet time; watch the ports' counters for congestion",
    ),
    FindingKind.FAR_BELOW: (
        "see that all rails are used",
        ("UCX_NET_DEVICES", " (UCX_NET_DEVICES)"),
        ("UCX_MAX_RNDV_RAILS", " (UCX_MAX_RNDV_RAILS)"),
        " and ranks are bound near their NIC",
    ),
    FindingKind.COSTLY_SWITCH: (
        "force the algorithm of the smaller size (Open MPI: coll_tuned_use_dynamic_rules 1 and "
        "coll_tuned_COLLECTIVE_algorithm; MPICH: MPIR_CVAR_..._INTRA_ALGORITHM)",
    ),
    FindingKind.IN_PLACE_DIFFERS: (IN_PLACE,),
    FindingKind.SLOWER_SETUP: SLOWER,
}


def remedies(failures: Iterable[Failure]) -> tuple[str, ...]:
    """A line for each kind of failure."""
    return tuple(REMEDIES[kind] for kind in dict.fromkeys(failure.kind for failure in failures))


def advice(curve: Curve, findings: Iterable[Finding]) -> tuple[str, ...]:
    """A line for each kind of alarm, in their order; without variables that the file sets."""
    alarms = [finding for finding in findings if finding.alarm]
    single = {finding.kind for finding in alarms if len(finding.places) == 1}
    kinds = dict.fromkeys(_advised(curve, finding) for finding in alarms)
    lines = [_line(curve, kind, kind in single) for kind in kinds]
    switches = FindingKind.BUMP in kinds or FindingKind.COSTLY_SWITCH in kinds
    if curve.network == SLINGSHOT and curve.nodes != 1 and switches:
        lines.append(_on_slingshot(curve))
    return tuple(line for line in lines if line)


def _advised(curve: Curve, finding: Finding) -> FindingKind:
    """The kind of alarm whose line fits: of times below expectation, that of a low plateau if the
    largest size is among them."""
    last = len(curve.points) - 1
    if finding.kind is not FindingKind.BELOW_EXPECTATION or last not in finding.places:
        return finding.kind
    return FindingKind.FAR_BELOW_IN_A_NODE if curve.nodes == 1 else FindingKind.FAR_BELOW


def _line(curve: Curve, kind: FindingKind, single: bool) -> str:
    free = [name for name in ("NCCL_PROTO", "NCCL_ALGO") if name not in _variables(curve)]
    if curve.uses_mpi:
        return _joined(curve, MPI.get(kind, ()))
    if kind is FindingKind.BUMP:
        return _on_bump(free, single)
    if kind is FindingKind.COSTLY_SWITCH:
        names = ", ".join(reversed(free))
        test = f"force what ran at the smaller size ({names}) to see whether it is faster here"
        return test if names else UNFORCED
    over_libfabric = curve.network in (SLINGSHOT, EFA)
    nics = ("NET/OFI",) if over_libfabric else ("NET/IB", ("NCCL_IB_HCA", ", NCCL_IB_HCA"))
    return _joined(curve, NCCL.get(kind, ())).format(nics=_joined(curve, nics))


def _variables(curve: Curve) -> set[str]:
    """The variables that are set; a forced algorithm or protocol is one, too."""
    forced = {"NCCL_ALGO": curve.algorithm, "NCCL_PROTO": curve.protocol}
    return {*curve.variables, *(name for name, value in forced.items() if value)}


def _joined(curve: Curve, parts: Parts) -> str:
    variables = _variables(curve)
    pairs = (("", part) if isinstance(part, str) else part for part in parts)
    return "".join(text for name, text in pairs if name not in variables)


def _on_bump(free: list[str], single: bool) -> str:
    choices = {
        "NCCL_PROTO": "NCCL_PROTO=Simple, LL128, LL in turn: the choice without the bump names the "
        "protocol at fault",
        "NCCL_ALGO": "NCCL_ALGO=Ring and Tree",
    }
    clauses = [f"repeat these sizes with {choices[name]}" for name in free]
    if single:
        clauses.append("a single size that is slow only once is noise: more iterations (-n 100)")
    return "; ".join(clauses) or UNFORCED


def _on_slingshot(curve: Curve) -> str:
    variables = _variables(curve)
    names = [name + value for name, value in SLINGSHOT_VARIABLES.items() if name not in variables]
    limits = f"the eager and rendezvous limits of libfabric decide here: {', '.join(names)}"
    newer = "" if curve.uses_mpi else "try a newer aws-ofi-nccl"
    clauses = [clause for clause in (limits if names else "", newer) if clause]
    return f"on Slingshot {'; '.join(clauses)}" if clauses else ""
