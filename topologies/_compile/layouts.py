"""What kernels take and return, read from their annotations, and how it lies in memory for compiled
code."""

from __future__ import annotations

import operator
import types
from collections.abc import Callable, Sequence
from functools import cache
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin, get_type_hints

import numpy as np

from topologies._compile import Kernel

DIMENSIONS = object.__basicsize__ + 16
"""Where in the object of an array the address of its shape is, as numpy's C interface says. That of
its data is two words before it, and that of its strides is a word behind."""


class Column(NamedTuple):
    """An array, C-contiguous."""

    dtype: np.dtype[Any]
    dimensions: int = 1


class Record(NamedTuple):
    """A tuple, or a NamedTuple."""

    make: Callable[[Any], Any]
    """Makes the tuple from its parts."""
    parts: tuple[Layout, ...]


Layout = type | Column | Record
"""One of these, or int, float, bool or None: 64 bits, 64 bits, a byte, nothing."""


class Layouts(NamedTuple):
    """What a kernel takes and returns."""

    arguments: tuple[Layout, ...]
    result: Layout


@cache
def layouts(function: Kernel) -> Layouts:
    """The layouts of a kernel, from its annotations.

    >>> def double(values: np.typing.NDArray[np.float64], factor: int) -> float: ...
    >>> layouts(double)  # doctest: +NORMALIZE_WHITESPACE
    Layouts(arguments=(Column(dtype=dtype('float64'), dimensions=1), <class 'int'>),
    result=<class 'float'>)
    """
    hints = get_type_hints(function, include_extras=True)
    result = _layout(hints.pop("return", type(None)))
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    if missing := [name for name in names if name not in hints]:
        raise TypeError(f"{function.__module__}.{function.__name__}: annotate {missing[0]}")
    return Layouts(tuple(_layout(hints[name]) for name in names), result)


@cache
def _layout(hint: Any) -> Layout:
    origin, of = get_origin(hint), get_args(hint)
    if hint in (int, float, bool, type(None)):
        return hint  # type: ignore[no-any-return]
    if origin is Annotated:
        return Column(np.dtype(get_args(get_args(of[0])[1])[0]), of[1])
    if origin is np.ndarray:
        return Column(np.dtype(get_args(of[1])[0]))
    if origin is tuple:
        return Record(tuple, tuple(map(_layout, of)))
    if origin in (Union, types.UnionType) and of[0] is int:
        return int
    if isinstance(hint, type) and hasattr(hint, "_make"):
        fields = get_type_hints(hint, include_extras=True)
        return Record(hint._make, tuple(map(_layout, fields.values())))
    raise TypeError(f"no kernel takes {hint}")


def sample(layout: Layout) -> Any:
    """The smallest value of a layout."""
    if isinstance(layout, Column):
        return np.zeros((0,) * layout.dimensions, layout.dtype)
    if isinstance(layout, Record):
        return layout.make([sample(part) for part in layout.parts])
    return layout()


def words(layouts: Sequence[Layout], values: Sequence[Any], out: list[Any]) -> None:
    """Append what compiled code takes for values. An array is the address of its object: Python
    takes ten times as long to read what is in it."""
    for layout, value in zip(layouts, values, strict=True):
        if isinstance(layout, Column):
            dtype, dimensions = layout
            if value.dtype != dtype or value.ndim != dimensions or not value.flags.c_contiguous:
                raise TypeError(
                    f"an array is {value.dtype}, of shape {value.shape} and strides "
                    f"{value.strides}: its annotation says {dtype}, {dimensions} dimensions, "
                    "C-contiguous"
                )
            out.append(id(value))
        elif isinstance(layout, Record):
            words(layout.parts, value, out)
        else:
            out.append(operator.index(value) if layout is int else layout(value))


def form(layout: Layout) -> str:
    """The words of a layout, as `struct` packs them."""
    if isinstance(layout, Record):
        return "".join(map(form, layout.parts))
    return "d" if layout is float else "q"


def size(layout: Layout) -> int:
    """The number of words of what a kernel returns. An array is its owner and parent, size, item
    size, address, shape and strides."""
    if isinstance(layout, Record):
        return sum(map(size, layout.parts))
    if isinstance(layout, Column):
        return 5 + 2 * layout.dimensions
    return int(layout is not type(None))
