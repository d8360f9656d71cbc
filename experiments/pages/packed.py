"""Columns of numbers inside a page: compressed, as text."""

from __future__ import annotations

import json
import zlib
from base64 import b64encode
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

TYPES = {
    "u1": "Uint8Array",
    "u2": "Uint16Array",
    "u4": "Uint32Array",
    "i4": "Int32Array",
    "f4": "Float32Array",
    "f8": "Float64Array",
}
"""Types of numbers, and the typed arrays that hold them in a browser."""


def pack(columns: Mapping[str, npt.NDArray[Any]]) -> dict[str, object]:
    """One-dimensional columns as JSON: names, typed arrays and lengths, and one compressed text.

    `unpacked` in assets/core.js reads it. Integers take the smallest type that holds them. Raises
    TypeError for columns that are no numbers.
    """
    arrays = {name: _narrow(column) for name, column in columns.items()}
    header = [
        {"name": name, "type": TYPES[array.dtype.str[1:]], "length": len(array)}
        for name, array in arrays.items()
    ]
    aligned = b"".join(_aligned(array) for array in arrays.values())
    return {"columns": header, "bytes": b64encode(zlib.compress(aligned, 6)).decode()}


def embedded(value: object) -> str:
    """JSON for a script element: no text in it can end the element."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _narrow(column: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if column.dtype.kind == "f":
        return column.astype("<f8" if column.dtype.itemsize == 8 else "<f4")
    if column.dtype.kind not in "biu":
        raise TypeError(f"a column of {column.dtype}: numbers alone can be packed")
    least, most = (int(column.min()), int(column.max())) if len(column) else (0, 0)
    for name in ("u1", "u2", "u4", "i4"):
        limits = np.iinfo(name)
        if limits.min <= least and most <= limits.max:
            return column.astype(f"<{name}")
    return column.astype("<f8")


def _aligned(array: npt.NDArray[Any]) -> bytes:
    """The bytes, filled up to a multiple of eight: typed arrays begin at multiples of their
    item's size."""
    content = array.tobytes()
    return content + b"\0" * (-len(content) % 8)
