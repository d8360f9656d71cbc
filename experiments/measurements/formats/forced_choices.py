"""What an index or NCCL's variables say was forced: algorithm and protocol."""

import re
from typing import NamedTuple

from experiments.measurements.collectives import canonical
from experiments.spellings import (
    NCCL_TREELESS,
    NCCL_TREES,
    NCCL_WITHOUT_CHOICE,
    canonical_algorithm,
    canonical_protocol,
)


class ForcedChoice(NamedTuple):
    """What a run forced; empty if the library chose."""

    algorithm: str = ""
    """The algorithm."""
    protocol: str = ""
    """The protocol."""
    notes: tuple[str, ...] = ()
    """Notes for the curve."""
    ignored: str = ""
    """The algorithm that the run asked for, if that had no effect."""


def read_label(label: str, collective: str) -> ForcedChoice:
    """What the column `algorithm` of an index says was forced; a label that had no effect forced
    nothing.

    >>> read_label("Ring (NCCL_NVLS_ENABLE=0)", "all_reduce").algorithm
    'ring'
    >>> read_label("default-ring", "all_reduce").algorithm
    'ring'
    >>> read_label("NCCL_PROTO=LL128", "all_reduce").protocol
    'LL128'
    >>> read_label("label NVLS, NOT effective", "all_reduce").algorithm
    ''
    """
    if "not effective" in label.lower():
        note = "the label of the algorithm had no effect: the library chose"
        ignored = re.match(r"label (\w{1,40}), NOT effective", label)
        return ForcedChoice(notes=(note,), ignored=ignored[1].lower() if ignored else "")
    forced = dict(re.findall(r"\bNCCL_(ALGO|PROTO)=([^\s'\"]+)", label.partition("(")[0]))
    if forced:
        return forced_by(forced.get("ALGO", ""), forced.get("PROTO", ""), collective)
    word = label.partition("(")[0].strip()
    if word.lower().startswith(("auto", "open mpi default")):
        return ForcedChoice()
    return ForcedChoice(canonical_algorithm(word.removeprefix("default-"), collective))


def forced_by(algo: str, proto: str, collective: str) -> ForcedChoice:
    """What NCCL_ALGO and NCCL_PROTO leave of NCCL's choice for a collective: one name each, or the
    choice and a note.

    >>> forced_by("allreduce:tree;broadcast:ring", "LL", "all_reduce")
    ForcedChoice(algorithm='tree', protocol='LL', notes=(), ignored='')
    >>> forced_by("Ring,Tree", "", "all_reduce").notes
    ('NCCL_ALGO=Ring,Tree leaves NCCL the choice',)
    """
    algorithm, more = _single("NCCL_ALGO", algo, collective)
    protocol, notes = _single("NCCL_PROTO", proto, collective)
    if algorithm and (
        collective in NCCL_WITHOUT_CHOICE
        or (collective in NCCL_TREELESS and algorithm.lower() in NCCL_TREES)
    ):
        return ForcedChoice(
            "",
            canonical_protocol(protocol),
            (f"NCCL_ALGO={algo} has no effect on {collective}", *notes),
        )
    return ForcedChoice(
        canonical_algorithm(algorithm, collective), canonical_protocol(protocol), more + notes
    )


def _single(name: str, value: str, collective: str) -> tuple[str, tuple[str, ...]]:
    """The one choice that `value` leaves a collective; NCCL's form is `[function:]choice,...;...`,
    `^` all but."""
    for part in value.split(";"):
        function, _, choices = part.rpartition(":")
        if function and canonical(function) != collective:
            continue
        if "," in choices or choices.startswith("^"):
            return "", (f"{name}={value} leaves NCCL the choice",)
        return choices, ()
    return "", ()
