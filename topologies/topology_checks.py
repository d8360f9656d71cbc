"""What the columns of a topology must be, however it came to be: built, read or changed by
`dataclasses.replace`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, get_args

import numpy as np
import numpy.typing as npt

from topologies.device_names import DeviceNames
from topologies.errors import InputError
from topologies.link import Link

if TYPE_CHECKING:
    from topologies.topology import Floats, Ints, Topology

_OF_DEVICES = {"node": "int32", "reduction": "float64", "copy": "float64", "in_network": "bool"}
_OF_LINKS = {"source": "int32", "target": "int32", "latency": "float64", "assumed": "bool"}
_OF_MEDIA = {"medium_bandwidth": "float64", "medium_gap": "float64"}
_CHECKED = (
    *("device_names", "shared_names", "placement", "source", "target", "link_indptr"),
    *("link_media", "medium_bandwidth", "medium_gap", "latency", "reduction", "copy"),
)
_OTHERS = {"placement": "int32", "link_indptr": "int32", "link_media": "int32"}


def check_topology(topology: Topology, checked: Mapping[str, object]) -> Mapping[str, object]:
    """Raises InputError, naming the first value that cannot be, and what would be right.

    What `checked` holds, the columns of a topology that this topology was made of, is not looked at
    again. Returns the columns.
    """

    def changed(*columns: str) -> bool:
        return any(getattr(topology, name) is not checked.get(name) for name in columns)

    devices, links = len(topology.device_names), len(topology.source)
    media = links + len(topology.shared_names)
    for columns, rows, noun in (
        (_OF_DEVICES, devices, "device"),
        (_OF_LINKS, links, "link"),
        (_OF_MEDIA, media, "medium"),
    ):
        for name, dtype in columns.items():
            _check_array(name, getattr(topology, name), dtype)
            _check_length(name, getattr(topology, name), rows, noun)
    for name, dtype in _OTHERS.items():
        _check_array(name, getattr(topology, name), dtype)
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
    _check_figures(topology, changed)
    return {name: getattr(topology, name) for name in _CHECKED}


def check_figure(name: str, value: float, unit: str, *, low: float, strict: bool = False) -> None:
    """Raises InputError unless a figure is at least `low` and finite, or, `strict`, above `low`."""
    if not (value > low if strict else low <= value < np.inf):
        raise InputError(
            f"{name} is {value}{unit}: it is {'above' if strict else 'at least'} {low:g}{unit}"
        )


def check_link(link: Link, where: str = "") -> None:
    """Raises InputError unless bytes can pass a link, and take no negative time."""
    check_figure(f"bandwidth{where}", link.bandwidth, "B/s", low=0, strict=True)
    check_figure(f"latency{where}", link.latency, "s", low=0)
    check_figure(f"gap{where}", link.gap, "s", low=0)


def _check_array(name: str, values: object, dtype: str) -> None:
    if not isinstance(values, np.ndarray):
        raise InputError(f"{name} is a {type(values).__name__}: expected an array of {dtype}")
    if values.dtype.kind != np.dtype(dtype).kind:
        raise InputError(f"{name} is an array of {values.dtype}: expected one of {dtype}")
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


def _check_figures(topology: Topology, changed: Callable[..., bool]) -> None:
    from topologies.topology import Paths

    if topology.paths not in get_args(Paths):
        raise InputError(f"paths is {topology.paths!r}: expected first, link, hash or rail")
    media, devices = topology.medium_names, topology.device_names
    for column, names, unit in (
        ("medium_bandwidth", media, "B/s"),
        ("medium_gap", media, "s"),
        ("latency", media, "s"),
        ("reduction", devices, "s/B"),
        ("copy", devices, "s/B"),
    ):
        if changed(column):
            _check_column(column, getattr(topology, column), names, unit)


def _check_column(column: str, values: Floats, names: Sequence[str], unit: str) -> None:
    """Bandwidths are above 0, and may be infinite. All else is at least 0, and finite."""
    noun, strict = column.removeprefix("medium_"), column == "medium_bandwidth"
    if (
        len(values)
        and (low := values.min()) >= 0
        and (low > 0 if strict else values.max() < np.inf)
    ):
        return
    right = values > 0 if strict else (values >= 0) & (values < np.inf)
    if not right.all():
        row = int(right.argmin())
        check_figure(f"{noun} of {names[row]}", float(values[row]), unit, low=0, strict=strict)
