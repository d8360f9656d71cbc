"""Algorithms and protocols by whatever word a library, a file or an index has for them, to the
names used here."""

import re
from typing import NamedTuple

from experiments.measurements.measurement import canonical

_SUFFIX = re.compile(r"_(ompi|mpich|over|impi)$")
_FORCED = re.compile(r"\bNCCL_(ALGO|PROTO)=([^\s'\"]+)")
_CHOSEN = (
    "",
    "default",
    "auto",
    "none",
    "point-to-point",
    "osu_latency",
    "mpi default",
    "not stated",
)
_SAME = {
    "rabenseifner": "halving_doubling",
    "ring_segmented": "segmented_ring",
    "neighbour": "neighbor",
    "recursivedoubling": "recursive_doubling",
    "halvingdoubling": "halving_doubling",
}
_OF = {
    ("ring", "all_gather"): "ring_all_gather",
    ("ring", "reduce_scatter"): "ring_reduce_scatter",
    ("rings", "all_gather"): "rings_all_gather",
    ("rings", "reduce_scatter"): "rings_reduce_scatter",
    ("tree", "reduce"): "tree_reduce",
    ("tree", "broadcast"): "tree_broadcast",
    ("binary", "reduce"): "binary_tree_reduce",
    ("binary", "broadcast"): "binary_tree_broadcast",
    ("chain", "reduce"): "chain_reduce",
    ("chain", "broadcast"): "chain_broadcast",
    ("recursive_doubling", "all_gather"): "recursive_doubling_all_gather",
    ("recursive_halving", "reduce_scatter"): "recursive_halving_reduce_scatter",
    ("neighbor", "all_gather"): "neighbor_exchange",
}
_KNOWN = {
    "ring",
    "rings",
    "gloo_ring",
    "naive",
    "naive_serial",
    "parameter_server",
    "parameter_server_apart",
    "tree",
}
_KNOWN |= {
    "binary_tree",
    "tree_reduce",
    "tree_broadcast",
    "recursive_doubling",
    "pairwise",
    "shift",
    "sharp",
    "nvls",
}
_KNOWN |= {*_SAME.values(), *_OF.values()}
_PROTOCOLS = {name.lower(): name for name in ("LL", "LL128", "Simple", "eager", "rendezvous")}
_WITHOUT_CHOICE = ("all_to_all", "send_recv", "gather", "scatter", "hypercube")
_TREELESS = ("all_gather", "reduce_scatter", "broadcast", "reduce")


class Label(NamedTuple):
    """What was forced, empty where the library chose, and what is to be said about it."""

    algorithm: str = ""
    protocol: str = ""
    notes: tuple[str, ...] = ()


def canonical_algorithm(word: str, collective: str | None) -> str:
    """This project's name of an algorithm, the word itself if there is none; empty where the
    library chose.

    >>> canonical_algorithm("Ring", "all_reduce"), canonical_algorithm("ring_ompi", "all_gather")
    ('ring', 'ring_all_gather')
    >>> canonical_algorithm("rabenseifner_over", "all_reduce")
    'halving_doubling'
    >>> canonical_algorithm("trix6", "all_reduce")
    'trix6'
    >>> canonical_algorithm("default_ompi", "all_reduce")
    ''
    """
    plain = _SUFFIX.sub("", word.strip())
    name = plain.lower().replace("-", "_").replace(" ", "_")
    if plain.lower() in _CHOSEN:
        return ""
    name = _SAME.get(name, name)
    return _OF.get((name, collective or ""), name if name in _KNOWN else plain)


def canonical_protocol(word: str) -> str:
    """The one spelling of a protocol's name, or the word itself.

    >>> canonical_protocol("ll128"), canonical_protocol("SIMPLE"), canonical_protocol("zcopy")
    ('LL128', 'Simple', 'zcopy')
    """
    return _PROTOCOLS.get(word.strip().lower(), word.strip())


def read_label(label: str, collective: str) -> Label:
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
        return Label(notes=("the label of the algorithm had no effect: the library chose",))
    forced = dict(_FORCED.findall(label.partition("(")[0]))
    if forced:
        return forced_by(forced.get("ALGO", ""), forced.get("PROTO", ""), collective)
    word = label.partition("(")[0].strip()
    if word.lower().startswith(("auto", "open mpi default")):
        return Label()
    return Label(canonical_algorithm(word.removeprefix("default-"), collective))


def forced_by(algo: str, proto: str, collective: str) -> Label:
    """What NCCL_ALGO and NCCL_PROTO leave of NCCL's choice for a collective: one name each, or the
    choice and a note.

    >>> forced_by("allreduce:tree;broadcast:ring", "LL", "all_reduce")
    Label(algorithm='tree', protocol='LL', notes=())
    >>> forced_by("Ring,Tree", "", "all_reduce")
    Label(algorithm='', protocol='', notes=('NCCL_ALGO=Ring,Tree leaves NCCL the choice',))
    """
    algorithm, more = _single("NCCL_ALGO", algo, collective)
    protocol, notes = _single("NCCL_PROTO", proto, collective)
    if algorithm and (
        collective in _WITHOUT_CHOICE
        or (collective in _TREELESS and algorithm.lower() in ("tree", "nvlstree"))
    ):
        return Label(
            "",
            canonical_protocol(protocol),
            (f"NCCL_ALGO={algo} has no effect on {collective}", *notes),
        )
    return Label(
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
