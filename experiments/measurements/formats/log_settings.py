"""What a log says of the library, its variables, what they force, and what NCCL runs.

Lines of NCCL_DEBUG=INFO with NCCL_DEBUG_SUBSYS=TUNING (src/enqueue.cc) say what runs, one a call,
of rank 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from experiments.measurements.collectives import PARTS, canonical
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
    protocol: str = ""
    notes: tuple[str, ...] = ()
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


Settings = dict[str, set[str]]
"""All values of each variable; under "library" its version."""
LIBRARY = "library"

_SETTING = re.compile(
    r"(?:\b(export|unset) {1,9}['\"]?)?(?<!\b[Ss]et )(?<!\b[Tt]ry )(?<!etting )"
    r"\b((?:NCCL|RCCL|FI|UCX|OMPI_MCA|MPICH|MPIR_CVAR|I_MPI)_\w{1,60})\b"
    r"(=| set by environment to )?['\"]?((?:[\w^/~-][\w^:;,/]{0,199})?)"
)


def settings(text: str) -> Iterator[tuple[str, str, str]]:
    """Names and values in a line, and of which test: "this", the "next" one, or "all" from now on
    (exported).

    >>> list(settings("+ export NCCL_ALGO=Ring"))
    [('NCCL_ALGO', 'Ring', 'all')]
    >>> list(settings("mpirun -x NCCL_PROTO=LL128 all_reduce_perf"))
    [('NCCL_PROTO', 'LL128', 'next')]
    >>> list(settings("node1:1:2 [0] NCCL INFO NCCL_ALGO set by environment to Tree"))
    [('NCCL_ALGO', 'Tree', 'this')]
    """
    for shell, name, assignment, value in _SETTING.findall(text):
        if shell == "unset" or (assignment and value):
            scope = "all" if shell else "this" if assignment != "=" else "next"
            yield name, "" if shell == "unset" else value, scope
    for library, version in re.findall(
        r"\b([NR]CCL) version ?:? ?v?([0-9]{1,3}\.[0-9]{1,3}[\w.+-]{0,40})", text
    ):
        yield LIBRARY, f"{library} {version}", "this"
    for code in re.findall(r"\bnccl-library=([0-9]{4,6})(?![0-9])", text):
        yield LIBRARY, f"NCCL {version_of(int(code))}", "this"
    if "rccl-tests" in text:
        yield LIBRARY, "RCCL", "this"


def variables(settings_of_test: Settings) -> tuple[str, ...]:
    """The variables that have a value that counts: NCCL_DEBUG=WARN prints none of the lines that
    NCCL_DEBUG is set for.

    >>> variables({"NCCL_PROTO": {"LL"}, "NCCL_ALGO": {""}, "NCCL_DEBUG": {"WARN"}})
    ('NCCL_PROTO',)
    """
    return tuple(
        sorted(
            name
            for name, values in settings_of_test.items()
            if name != LIBRARY and _counts(name, values)
        )
    )


def _counts(name: str, values: set[str]) -> bool:
    if name == "NCCL_DEBUG":  # these values print what NCCL chooses
        return any(value.upper() in ("INFO", "TRACE") for value in values)
    return any(values)


def version_of(code: int) -> str:
    """The version in the number that NCCL reports: from 2.9 on, it has two digits for each part.

    >>> version_of(22902), version_of(2804)
    ('2.29.2', '2.8.4')
    """
    thousand = 10000 if code >= 10000 else 1000
    return f"{code // thousand}.{code % thousand // 100}.{code % 100}"


def library(settings_of_test: Settings) -> tuple[str, tuple[str, ...]]:
    """The library and its version, or none and a note where the log names several."""
    versions = sorted(
        settings_of_test.get(LIBRARY, ()), key=lambda version: (len(version), version)
    )
    if versions and all(versions[-1].startswith(version) for version in versions):
        return versions[-1], ()
    return "", (f"library unknown: the log names {' and '.join(versions)}",) if versions else ()


def forced(settings_of_test: Settings, collective: str) -> ForcedChoice:
    """The algorithm and the protocol that were forced on a collective; none and a note where there
    are several."""
    values = {name: sorted(settings_of_test.get(name, ())) for name in ("NCCL_ALGO", "NCCL_PROTO")}
    notes = tuple(
        f"{name} is {' and '.join(choices)} in the log: not known which"
        for name, choices in values.items()
        if choices[1:]
    )
    algo, proto = ("".join(choices) if len(choices) == 1 else "" for choices in values.values())
    label = forced_by(algo, proto, collective)
    return label._replace(notes=notes + label.notes)


_CHOICE = re.compile(
    r"NCCL INFO (?:(\w{1,30}): )?([0-9]{1,18}) Bytes -> Algo (\w{1,30}) proto (\w{1,20})\b"
)
_ALGORITHMS = ("tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat")
_PROTOCOLS = ("LL", "LL128", "Simple")
"""What the numbers stand for that versions before 2.24 print (src/include/nccl_common.h)."""

Choices = dict[tuple[str, int], set[tuple[str, str]]]
"""The algorithms and protocols of each collective and its bytes. Before 2.23 no line names a
collective: it is empty."""


def add_choice(choices: Choices, line: str) -> None:
    """Add what a line says that NCCL runs.

    >>> choices: Choices = {}
    >>> add_choice(choices, "a:1:2 [0] NCCL INFO AllReduce: 8 Bytes -> Algo RING proto LL channel")
    >>> choices
    {('all_reduce', 8): {('RING', 'LL')}}
    """
    if match := _CHOICE.search(line):
        word, size, *labels = match.groups()
        key = canonical(word or "") or "", int(size)
        choices.setdefault(key, set()).add((labels[0], labels[1]))


def labels_of(
    choices: Choices, collective: str, ranks: int | None, sizes: Iterable[int]
) -> Mapping[int, tuple[str, str]]:
    """The algorithm and the protocol of each size of a table, where NCCL names one of both.

    Lines of newer versions have the bytes of one rank, and those of older ones all.
    """
    named = {size: labels for (name, size), labels in choices.items() if name in ("", collective)}
    parts = ranks if ranks and collective in PARTS else 1
    table = [*sizes]
    whole, of_a_rank = (
        {size: named[size // each] for size in table if size // each in named}
        for each in (1, parts)
    )
    by_size = whole if len(whole) >= len(of_a_rank) else of_a_rank
    return {
        size: _label(*next(iter(labels)), collective)
        for size, labels in by_size.items()
        if len(labels) == 1
    }


def _label(algorithm: str, protocol: str, collective: str) -> tuple[str, str]:
    if algorithm.isdigit():
        algorithm = dict(enumerate(_ALGORITHMS)).get(int(algorithm), algorithm)
    if protocol.isdigit():
        protocol = dict(enumerate(_PROTOCOLS)).get(int(protocol), protocol)
    return canonical_algorithm(algorithm, collective), canonical_protocol(protocol)
