"""What to try, by kind of finding: only variables that are not set already."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from experiments.diagnosis.findings import Finding, FindingKind
from experiments.measurements import Curve, Failure
from experiments.measurements.networks import EFA, SLINGSHOT

_FAILED = {
    "test died": "run this test alone with all warnings on: the first one names "
    "the rank and the cause; where a test hangs, look for "
    "a firewall, a wrong network interface or a dead link",
    "without MPI": "build nccl-tests with make MPI=1, and start it with the mpirun or srun of "
    "that MPI: each process must list the devices of all ranks",
}
_CXI = {
    "FI_CXI_RDZV_THRESHOLD": "",
    "FI_CXI_RDZV_EAGER_SIZE": "",
    "FI_CXI_RX_MATCH_MODE": "=software or hybrid",
    "FI_MR_CACHE_MONITOR": "=userfaultfd",
    "FI_CXI_DISABLE_HOST_REGISTER": "=1",
}
"""Variables that decide how Slingshot sends messages, and values to try."""
_FREE = "repeat without the algorithm and the protocol that are forced here"


@dataclass(frozen=True)
class _Case:
    """What the advice on one kind of finding depends on."""

    variables: frozenset[str]
    """The variables that are set."""
    network: str
    """The network between nodes."""
    single: bool
    """Whether a single size is concerned."""

    def unset(self, name: str, text: str) -> str:
        """`text`, or nothing where the variable `name` is set."""
        return "" if name in self.variables else text

    def hint(self, name: str, value: str = "") -> str:
        """The variable in brackets, or nothing where it is set."""
        return self.unset(name, f" ({name}{value})")

    def forces(self) -> list[str]:
        """The variables that force a choice of NCCL, and are not set."""
        return [name for name in ("NCCL_ALGO", "NCCL_PROTO") if name not in self.variables]


def remedies(failures: Iterable[Failure]) -> tuple[str, ...]:
    """A line for each kind of failure."""
    return tuple(_FAILED[kind] for kind in dict.fromkeys(failure.kind for failure in failures))


def advice(curve: Curve, findings: Iterable[Finding]) -> tuple[str, ...]:
    """A line for each kind of alarm, in their order; without variables that the file sets."""
    remedy, variables = _MPI if curve.uses_mpi else _NCCL, _set(curve)
    alarms = [finding for finding in findings if finding.alarm]
    single = {finding.kind for finding in alarms if len(finding.places) == 1}
    kinds = dict.fromkeys(finding.kind for finding in alarms)
    lines = [
        remedy[kind](_Case(variables, curve.network, kind in single))
        for kind in kinds
        if kind in remedy
    ]
    if (
        curve.network == SLINGSHOT
        and curve.nodes != 1
        and not kinds.keys().isdisjoint((FindingKind.BUMP, FindingKind.COSTLY_SWITCH))
    ):
        lines.append(_on_slingshot(curve, variables))
    return tuple(line for line in lines if line)


def _set(curve: Curve) -> frozenset[str]:
    """The variables that are set; a forced algorithm or protocol is one, too."""
    forced = {"NCCL_ALGO": curve.algorithm, "NCCL_PROTO": curve.protocol}
    return frozenset((*curve.variables, *(name for name, value in forced.items() if value)))


def _wrong_with_nccl(case: _Case) -> str:
    protocols = case.unset(
        "NCCL_PROTO", "repeat with NCCL_PROTO=^LL128, then Simple; if they stay, "
    )
    return f"wrong sums are never noise: {protocols}test each node's GPU memory and links alone"


def _bump_with_nccl(case: _Case) -> str:
    choices = [
        case.unset(
            "NCCL_PROTO",
            "NCCL_PROTO=Simple, LL128, LL in turn: the choice without the bump names the "
            "protocol at fault",
        ),
        case.unset("NCCL_ALGO", "NCCL_ALGO=Ring and Tree"),
    ]
    clauses = [f"repeat these sizes with {choice}" for choice in choices if choice]
    if case.single:
        clauses.append("a single size that is slow only once is noise: more iterations (-n 100)")
    return "; ".join(clauses) or _FREE


def _slow_start_with_nccl(case: _Case) -> str:
    hint = case.unset(
        "NCCL_PROTO",
        "; if it stays, small messages take another path: compare NCCL_PROTO=LL with the default",
    )
    return f"give it more warm-up (-w 50) and fixed clocks (nvidia-smi -lgc){hint}"


def _drop_with_nccl(case: _Case) -> str:
    compare = case.unset("NCCL_ALGO", "compare NCCL_ALGO=Ring with Tree at the largest sizes, ")
    return (
        f"{compare}watch clocks and port counters (nvidia-smi dmon, perfquery) for throttling "
        f"and congestion, and "
        "repeat on other nodes"
    )


def _in_place(_: _Case) -> str:
    return "the two should be alike: repeat with more iterations (-n 100) at a quiet time"


def _in_place_with_nccl(case: _Case) -> str:
    what = "; what stays is the registration of one of the buffers (NCCL_LOCAL_REGISTER=0)"
    return _in_place(case) + case.unset("NCCL_LOCAL_REGISTER", what)


def _far_with_nccl(case: _Case) -> str:
    nics = (
        "NET/OFI"
        if case.network in (SLINGSHOT, EFA)
        else f"NET/IB{case.unset('NCCL_IB_HCA', ', NCCL_IB_HCA')}"
    )
    return (
        f"see in NCCL's lines{case.hint('NCCL_DEBUG', '=INFO')} that every NIC is used ({nics}), "
        f"over GPUDirect RDMA"
        f"{case.hint('NCCL_NET_GDR_LEVEL', '=PXB or SYS')}, with enough "
        f"channels{case.hint('NCCL_MIN_NCHANNELS')}, "
        "each rank on the cores near its GPU"
    )


def _far_in_a_node(case: _Case) -> str:
    return (
        f"see in NCCL's lines{case.hint('NCCL_DEBUG', '=INFO')} that channels go via P2P and not "
        f"SHM "
        f"({case.unset('NCCL_P2P_LEVEL', 'NCCL_P2P_LEVEL, ')}PCIe ACS off), and in nvidia-smi "
        f"nvlink -s that all links "
        "are up"
    )


def _switch_with_nccl(case: _Case) -> str:
    names = ", ".join(case.forces())
    return (
        f"force what ran at the smaller size ({names}) to see whether it is faster here"
        if names
        else _FREE
    )


def _slower(_: _Case) -> str:
    return "change one variable at a time (NCCL_*, FI_*, UCX_*), at the sizes named"


def _wrong_with_mpi(case: _Case) -> str:
    return (
        f"wrong sums are never noise: repeat with another algorithm and "
        f"transport{case.hint('UCX_TLS')}, then test "
        "each node's memory alone"
    )


def _bump_with_mpi(case: _Case) -> str:
    copies = case.unset("UCX_TLS", "used") or "in UCX_TLS"
    return (
        f"move the eager limit past these sizes, or before them{case.hint('UCX_RNDV_THRESH')}"
        f"{case.hint('I_MPI_EAGER_THRESHOLD')}; with GPU buffers see that gdr_copy and cuda_ipc "
        f"are {copies}"
    )


def _slow_start_with_mpi(_: _Case) -> str:
    return "give it more warm-up (osu: -x 1000) and fixed clocks"


def _drop_with_mpi(_: _Case) -> str:
    return "repeat on other nodes and at a quiet time; watch the ports' counters for congestion"


def _far_with_mpi(case: _Case) -> str:
    rails = f"{case.hint('UCX_NET_DEVICES')}{case.hint('UCX_MAX_RNDV_RAILS')}"
    return f"see that all rails are used{rails} and ranks are bound near their NIC"


def _switch_with_mpi(_: _Case) -> str:
    return (
        "force the algorithm of the smaller size (Open MPI: coll_tuned_use_dynamic_rules 1 and "
        "coll_tuned_COLLECTIVE_algorithm; MPICH: MPIR_CVAR_..._INTRA_ALGORITHM)"
    )


_Advice = dict[FindingKind, Callable[[_Case], str]]
_NCCL: _Advice = {
    FindingKind.WRONG_RESULT: _wrong_with_nccl,
    FindingKind.BUMP: _bump_with_nccl,
    FindingKind.SLOW_START: _slow_start_with_nccl,
    FindingKind.PLATEAU_DROPS: _drop_with_nccl,
    FindingKind.IN_PLACE_DIFFERS: _in_place_with_nccl,
    FindingKind.FAR_BELOW: _far_with_nccl,
    FindingKind.FAR_BELOW_IN_A_NODE: _far_in_a_node,
    FindingKind.COSTLY_SWITCH: _switch_with_nccl,
    FindingKind.SLOWER_SETUP: _slower,
}
_MPI: _Advice = {
    FindingKind.WRONG_RESULT: _wrong_with_mpi,
    FindingKind.BUMP: _bump_with_mpi,
    FindingKind.SLOW_START: _slow_start_with_mpi,
    FindingKind.PLATEAU_DROPS: _drop_with_mpi,
    FindingKind.FAR_BELOW: _far_with_mpi,
    FindingKind.COSTLY_SWITCH: _switch_with_mpi,
    FindingKind.IN_PLACE_DIFFERS: _in_place,
    FindingKind.SLOWER_SETUP: _slower,
}


def _on_slingshot(curve: Curve, variables: frozenset[str]) -> str:
    names = [f"{name}{value}" for name, value in _CXI.items() if name not in variables]
    limits = (
        [f"the eager and rendezvous limits of libfabric decide here: {', '.join(names)}"]
        if names
        else []
    )
    newer = [] if curve.uses_mpi else ["try a newer aws-ofi-nccl"]
    return f"on Slingshot {'; '.join([*limits, *newer])}" if limits or newer else ""
