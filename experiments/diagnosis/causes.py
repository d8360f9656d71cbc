"""What may make a job slower than expected: faults of a machine, each simulated on the machine that
has it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from experiments.calibration.libraries import MULTICAST
from experiments.diagnosis.curve_diagnosis import LARGEST_SIZES, Diagnosis
from experiments.diagnosis.expectation import Expectation
from experiments.diagnosis.plateau import nodes_of
from experiments.measurements.collectives import bus_factor
from experiments.output import counted
from simulator.profile import Profile
from topologies.catalogue import Blueprint
from topologies.clusters import MACHINES
from topologies.errors import InputError
from topologies.link import LINKS
from topologies.topology import Floats
from topologies.units import format_bandwidth

MOST = 3
"""So many causes are named."""
NEAR = 0.2
"""A cause explains times that are off by so much at most, |ln(measured / simulated)|."""
BETTER = 0.5
"""It explains them if that is at most so much of what they are off without it."""
UNCHANGED = 0.02
"""A fault counts if times change by so much, |ln(with / without it)|."""
NEVER = 1e6
"""An algorithm whose bytes take so many times as long is never the fastest."""
TCP_PORTS = ("ethernet10", "ethernet100")
"""The slowest and the fastest port over which a job may send where its fast network is not
found."""

Expect = Callable[[Blueprint, Callable[[Profile], Profile]], Expectation]
"""From a machine, and a change of the library's profile on it, to what that should give."""


class Cause(NamedTuple):
    """A fault of a machine."""

    text: str
    machines: tuple[Blueprint, ...]
    """The machine with the fault; two if the fault may be anything between the two."""
    changed: Callable[[Profile], Profile]
    """What the fault changes in the library's profile."""
    check: str
    """What tells this cause from others."""


def causes(diagnosis: Diagnosis, machine: Blueprint, expect: Expect) -> tuple[str, ...]:
    """A line for each of the likeliest causes of times below expectation, the nearest first; a line
    that says so if none explains them."""
    below, expected = diagnosis.below, diagnosis.expected
    if below is None or expected is None:
        return ()
    places = list(below.places[-LARGEST_SIZES:])
    measured, sizes = diagnosis.columns.seconds[places], diagnosis.columns.size[places]
    off = _off(measured, [expected.seconds[places]])
    simulated: list[tuple[float, Cause, list[Floats]]] = []
    for cause in _causes(nodes_of(diagnosis.curve, expected.topology), machine):
        with suppress(InputError):
            given = [expect(each, cause.changed)(diagnosis.curve, sizes) for each in cause.machines]
            seconds = [each.seconds for each in given if each is not None]
            # a fault that changes nothing is none of this job
            if seconds and _off(expected.seconds[places], seconds) > UNCHANGED:
                simulated.append((_off(measured, seconds), cause, seconds))
    near = [each for each in simulated if each[0] <= min(NEAR, BETTER * off)]
    if not near:
        tried = f"none of {counted(len(simulated), 'fault')} that simctl simulated gives this"
        tried = tried if simulated else "simctl knows no fault of this machine to simulate"
        return (f"cannot tell the cause: {tried}",)
    factor = bus_factor(diagnosis.curve.collective, diagnosis.curve.ranks or 2)
    lines = []
    # what may be anything between two machines explains less
    for _, cause, seconds in sorted(near, key=lambda each: (len(each[2]), each[0]))[:MOST]:
        rates = [format_bandwidth(factor * sizes[-1] / each[-1]) for each in seconds]
        lines.append(f"may be: {cause.text} would give {' to '.join(rates)}: {cause.check}")
    return tuple(lines)


def _off(measured: Floats, seconds: Sequence[Floats]) -> float:
    """How far measured times are from simulated ones, or from what is between them, in log."""
    off = np.log(measured / np.stack(seconds))
    return float((np.maximum(off.min(axis=0), 0) + np.maximum(-off.max(axis=0), 0)).mean())


def _causes(nodes: int, machine: Blueprint) -> Iterator[Cause]:
    """The faults that a job on so many nodes of a machine may have."""
    yield Cause(
        "all-reduces without NVLS",
        (machine,),
        _without_nvls,
        "repeat with NCCL_DEBUG=INFO, and look for NVLS; NCCL_NVLS_ENABLE=1 and a running "
        "nvidia-fabricmanager",
    )
    if machine.kind == "machine":
        yield from _in_a_node(machine) if nodes == 1 else _between_nodes(machine)


def _in_a_node(machine: Blueprint) -> Iterator[Cause]:
    usual = MACHINES[machine.name]
    if usual.links:
        kind = LINKS[usual.nvlink].kind
        tool = "nvidia-smi nvlink -s" if kind == "nvlink" else "rocm-smi --showtopo"
        half = f"a GPU with half of its links of kind {kind}"
        yield Cause(half, (machine,), _slowed(0.5, kind), f"{tool} lists the links of each GPU")
    yield Cause(
        "GPUs that do not reach each other, through the host's memory,",
        (machine.with_options(p2p=False),),
        same,
        "nvidia-smi topo -p2p r must say OK; unset NCCL_P2P_DISABLE",
    )


def _between_nodes(machine: Blueprint) -> Iterator[Cause]:
    usual = MACHINES[machine.name]
    option = machine.options.get("nics")
    nics = option if isinstance(option, int) else usual.nics
    port = str(machine.options.get("port", usual.port))
    rate = LINKS[port].link.bandwidth
    lines = "NCCL_DEBUG=INFO lists the NICs in use behind NET/IB : Using; see NCCL_IB_HCA"
    for number in dict.fromkeys(max(1, nics // share) for share in (2, 4, nics)):
        if number < nics:
            text = f"{number} of {nics} NICs of a node"
            yield Cause(text, (machine.with_options(nics=number),), same, lines)
    shares = {
        "ports at half of their speed, or NICs with half of their PCIe lanes,": (
            0.5,
            "ibstat must say Rate, and lspci -vv LnkSta, in full",
        )
    }
    if usual.socket:
        shares["a NIC behind the other socket"] = (
            LINKS[usual.socket].link.bandwidth / rate,
            "nvidia-smi topo -m must say PIX or PXB for a GPU and its NIC, not SYS",
        )
    if usual.switches:
        flows = 2 * nics / usual.switches
        shares["sends through the host's memory, without GPUDirect,"] = (
            LINKS[usual.host].link.bandwidth / flows / rate,
            "NCCL_DEBUG=INFO must say GDRDMA; load nvidia_peermem, and turn PCIe ACS off",
        )
    for text, (share, check) in shares.items():
        if share < 1:
            yield Cause(text, (machine,), _slowed(share, LINKS[port].kind), check)
    yield Cause(
        "TCP over one port",
        tuple(
            machine.with_options(nics=1, port=name)
            for name in TCP_PORTS
            if LINKS[name].link.bandwidth <= rate
        ),
        same,
        "NCCL_DEBUG=INFO must not say NET/Socket; see NCCL_IB_DISABLE and NCCL_NET_PLUGIN",
    )


def same(profile: Profile) -> Profile:
    """The profile without a fault."""
    return profile


def _without_nvls(profile: Profile) -> Profile:
    never = dict.fromkeys(profile.protocols[-1].links, NEVER)
    return replace(profile, slower={**profile.slower, **dict.fromkeys(MULTICAST, never)})


def _slowed(share: float, kind: str) -> Callable[[Profile], Profile]:
    """The profile whose links of a kind have a share of their β for long messages, and no more for
    any."""

    def changed(profile: Profile) -> Profile:
        most = share * profile.protocols[-1].links[kind].bandwidth
        protocols = (
            replace(
                each,
                links={
                    **each.links,
                    kind: replace(
                        each.links[kind], bandwidth=min(most, each.links[kind].bandwidth)
                    ),
                },
            )
            for each in profile.protocols
        )
        return replace(profile, protocols=tuple(protocols))

    return changed
