"""What the columns of a topology must be, however it came to be: built, read or changed by
`dataclasses.replace`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from topologies.device_names import DeviceNames
from topologies.errors import InputError

if TYPE_CHECKING:
    from topologies.topology import Floats, Ints, Topology


def check_topology(topology: Topology, checked: Mapping[str, object]) -> Mapping[str, object]:
    """Raises InputError, naming the first value that cannot be, and what would be right.

    What `checked` holds, the columns of a topology that this topology was made of, is not looked at
    again. Returns the columns.
    """

    def changed(*columns: str) -> bool:
        return any(getattr(topology, name) is not checked.get(name) for name in columns)

    devices, links = len(topology.device_names), len(topology.source)
    media = links + len(topology.shared_names)
    for noun, rows, columns in (
        ("device", devices, {"node": "i", "reduction": "f", "copy": "f", "in_network": "b"}),
        ("link", links, {"source": "i", "target": "i", "latency": "f", "assumed": "b"}),
        ("medium", media, {"medium_bandwidth": "f", "medium_gap": "f"}),
        ("", None, {"placement": "i", "link_indptr": "i", "link_media": "i"}),
    ):
        for name, kind in columns.items():
            _check_array(name, getattr(topology, name), kind)
            if rows is not None:
                _check_length(name, getattr(topology, name), rows, noun)
    _check_length("device_kinds", topology.device_kinds, devices, "device")
    _check_length("link_kinds", topology.link_kinds, links, "link")
    for name, noun in (("device_names", "device"), ("shared_names", "medium")):
        if changed(name):
            _check_unique(noun, getattr(topology, name))
    for name in ("placement", "source", "target"):
        if changed(name, "device_names"):
            _check_range(name, getattr(topology, name), devices)
    if changed("source", "target", "device_names"):
        _check_ends(topology.device_names, topology.source, topology.target)
    if changed("link_indptr", "link_media", "source", "shared_names"):
        _check_media(topology.link_indptr, topology.link_media, links, media)
    for name, names, unit in (
        ("medium_bandwidth", topology.medium_names, "B/s"),
        ("medium_gap", topology.medium_names, "s"),
        ("latency", topology.medium_names, "s"),
        ("reduction", topology.device_names, "s/B"),
        ("copy", topology.device_names, "s/B"),
    ):
        if changed(name):
            _check_figures(name, getattr(topology, name), names, unit)
    return {name: column for name, column in vars(topology).items() if not name.startswith("_")}


def _check_array(name: str, values: object, kind: str) -> None:
    """`kind` is that of the dtype."""
    expected = {"i": "int32", "f": "float64", "b": "bool"}[kind]
    if not isinstance(values, np.ndarray):
        raise InputError(f"{name} is a {type(values).__name__}: expected an array of {expected}")
    if values.dtype.kind != kind:
        raise InputError(f"{name} is an array of {values.dtype}: expected one of {expected}")
    if values.ndim != 1:
        raise InputError(f"{name} has {values.ndim} dimensions: expected 1")


def _check_length(
    name: str, values: Sequence[object] | npt.NDArray[np.generic], rows: int, noun: str
) -> None:
    if len(values) != rows:
        raise InputError(f"{name} has {len(values)} values: expected {rows}, one a {noun}")


def _check_unique(noun: str, names: Sequence[str]) -> None:
    if isinstance(names, DeviceNames):
        return  # which refuse a name that is there twice
    if len(set(names)) < len(names):
        name = next(name for k, name in enumerate(names) if name in names[:k])
        raise InputError(f"{noun} {name!r} is there twice: names are unique")


def _check_range(name: str, values: Ints, end: int) -> None:
    if len(values) and not 0 <= values.min() <= values.max() < end:
        value = values[(values < 0) | (values >= end)][0]
        raise InputError(f"{name} holds {value}: expected 0 to {end - 1}")


def _check_ends(names: Sequence[str], source: Ints, target: Ints) -> None:
    """Every link leads from one device to another, and no two alike."""
    key = source.astype(np.int64)
    key *= len(names)
    key += target
    key.sort()
    itself = source == target
    again = key[1:] == key[:-1]
    if again.any() or itself.any():
        bad = [*key[1:][again], *np.sort(source[itself].astype(np.int64) * (len(names) + 1))]
        name = f"{names[bad[0] // len(names)]}->{names[bad[0] % len(names)]}"
        raise InputError(
            f"link {name} is there twice or leads nowhere: one link a direction between two devices"
        )


def _check_media(indptr: Ints, crossed: Ints, links: int, media: int) -> None:
    """Every link crosses its own medium first."""
    _check_length("link_indptr", indptr, links + 1, "link and an end")
    if indptr[0] != 0 or indptr[-1] != len(crossed) or (indptr[1:] <= indptr[:-1]).any():
        right = f"expected steps of 1 or more from 0 to {len(crossed)}"
        raise InputError(f"link_indptr runs from {indptr[0]} to {indptr[-1]}: {right}")
    _check_range("link_media", crossed, media)
    wires = crossed if len(crossed) == links else crossed[indptr[:-1]]
    right_wires = wires == np.arange(links, dtype=np.int32)
    if not right_wires.all():
        link = right_wires.argmin()
        raise InputError(
            f"link_media gives link {link} the medium {wires[link]} first: its own comes first, "
            f"medium {link}"
        )


def _check_figures(column: str, values: Floats, names: Sequence[str], unit: str) -> None:
    """Bandwidths are above 0, and may be infinite. All else is at least 0, and finite."""
    above = column == "medium_bandwidth"
    right = values > 0 if above else (values >= 0) & (values < np.inf)
    if not right.all():
        row = int(right.argmin())
        raise InputError(
            f"{column.removeprefix('medium_')} of {names[row]} is {float(values[row])}{unit}: "
            f"it is {'above' if above else 'at least'} 0{unit}"
        )
