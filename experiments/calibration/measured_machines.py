"""The machine on which a curve was measured, as far as its file tells."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from experiments.measurements import Curve, curve_checks
from topologies.errors import InputError

_GPU = re.compile(
    r"\b(?:[ABHPV]\d{2,3}[GS]?|A\d{4}|G[HB]\d{3}|MI\d{3}[AX]?|gfx\d{3}|L4|L40S?|T4|\d{4} "
    r"?Ti|[2-5]0[5-9]0)\b"
)
_SHARP = re.compile(r"G?[HB]\d{2,3}")
"""GPUs whose NVSwitches reduce and multicast."""
_CARD = re.compile(r"[ah]\d{3}[ -](?:\d{2}gb )?(pcie|nvl)\b")
"""GPUs on cards, without NVSwitches."""
NVLS_SINCE = 2, 17
"""The first version of NCCL with NVLS."""
NVLS_TREE_SINCE = 2, 18
"""The first one with NVLSTree."""
PAIRED_GPUS, MESHED_GPUS = 2, 4
"""NCCL takes no NVLS for two GPUs, and at most four have direct NVLinks to one another."""
SHOWN_MACHINES = 4
"""A message names at most so many machines."""


def check(curves: Sequence[Curve]) -> None:
    """Raise InputError if curves are of several machines. The message names the option that selects
    one machine.

    Curves are of several machines if an index has them in several families, or their GPUs are of
    several models.
    """
    for tell in (family, gpu):
        machines: dict[str, list[Curve]] = {}
        for curve in curves:
            machines.setdefault(tell(curve), []).append(curve)
        names = [machine for machine in machines if machine]
        if len(names) > 1:
            examples = [machine[:60] for machine in names[:SHOWN_MACHINES]]
            examples += ["..."] * (len(names) > SHOWN_MACHINES)
            raise InputError(
                f"runs of {len(names)} machines ({', '.join(examples)}): a profile is of one, "
                f"{_advice(machines)}"
            )


def family(curve: Curve) -> str:
    """The first word of what an index calls the series of a curve; empty without an index."""
    return curve.family.partition(" ")[0]


def gpu(curve: Curve) -> str:
    """The model of the GPUs that a curve was measured on; empty where its file does not say.

    >>> from experiments.measurements import Curve
    >>> gpu(Curve("all_reduce", 8, 1, (), (), "x.log", device="NVIDIA A100-SXM4-40GB"))
    'A100'
    """
    match = _GPU.search(f"{curve.device} {curve.machine}".replace("_", " "))
    return match[0] if match else ""


def may_multicast(curve: Curve) -> bool:
    """Whether NCCL takes NVLS if the switches of the node multicast: from 2.17 on, with three GPUs
    or more of Hopper or later on one node (src/transport/nvls.cc).

    >>> from experiments.measurements import Curve
    >>> may_multicast(Curve("all_reduce", 8, 1, (), (), "x.log", device="NVIDIA H100 80GB HBM3"))
    True
    """
    return curve.nodes == 1 and (curve.ranks or 0) > PAIRED_GPUS and _knows(curve, NVLS_SINCE)


def may_cross(curve: Curve) -> bool:
    """Whether NCCL takes NVLSTree if the switches of nodes multicast: from 2.18 on, with GPUs of
    Hopper or later on several nodes (src/graph/tuning.cc)."""
    return curve.nodes != 1 and _knows(curve, NVLS_TREE_SINCE)


def _knows(curve: Curve, since: tuple[int, int]) -> bool:
    """Whether the version and the GPUs that the file names, if it does, have algorithms in
    switches."""
    model = gpu(curve)
    sharp = not model or _SHARP.fullmatch(model) is not None
    return sharp and is_since(curve.library, since)


def is_since(library: str, since: tuple[int, int]) -> bool:
    """Whether the version in a library's name is so new, or the name has none.

    >>> [is_since(name, (2, 18)) for name in ("NCCL 2.9.8", "NCCL 2.18.1", "NCCL")]
    [False, True, True]
    """
    version = re.search(r"(\d+)\.(\d+)", library)
    return version is None or (int(version[1]), int(version[2])) >= since


def multicasts(curve: Curve) -> bool:
    """Whether the GPUs of a curve are on NVSwitches that multicast, as far as its file tells: it
    names them, or more GPUs are on a node than have direct NVLinks to one another."""
    switched = "nvswitch" in _words(curve) or (curve.ranks or 0) > MESHED_GPUS
    return may_multicast(curve) and bool(gpu(curve)) and switched and not on_cards(curve)


def on_cards(curve: Curve) -> bool:
    """Whether the GPUs of a curve are on cards, without NVSwitches, as its file tells.

    >>> from experiments.measurements import Curve
    >>> on_cards(Curve("all_reduce", 8, 1, (), (), "x.log", device="NVIDIA A100-PCIE-40GB"))
    True
    """
    return _CARD.search(_words(curve)) is not None


def _words(curve: Curve) -> str:
    return f"{curve.device} {curve.machine} {curve.topology}".lower()


def _advice(machines: Mapping[str, Sequence[Curve]]) -> str:
    """How to select the curves of one machine: by a word of their file names, or else by their
    family."""
    options = []
    for machine, curves in machines.items():
        common = set.intersection(*({*curve_checks.words(curve)} for curve in curves))
        for elsewhere, rest in machines.items():
            if elsewhere != machine:
                common = common.difference(*map(curve_checks.words, rest))
        if common:
            word = min(common, key=lambda word: (word.isdigit(), word))
            options.append(f"--only {word}")
    families = {family(curve) for curves in machines.values() for curve in curves} - {""}
    if len(options) < len(machines):
        options = [f"--family {name}" for name in sorted(families)]
    if len(options) < 2:
        return "name the files of one"
    return f"take each alone: {', '.join(options[:SHOWN_MACHINES])}"
