"""Columns of whole numbers, such as ranks, slots and lanes. A fraction is an error and is not
rounded."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from topologies.errors import InputError
from topologies.topology import Longs, Numbers

Index = int | Sequence[int] | Numbers
_SHOWN = 40


def whole_numbers(name: str, numbers: object) -> Longs:
    """`numbers` as an array of int64. Raises InputError, naming the first value that is not a whole
    number.

    >>> whole_numbers("rank", [0, 2.0])
    array([0, 2])
    """
    try:
        values = np.asarray(numbers)
    except ValueError:
        raise _refusal(name, numbers) from None
    if values.dtype.kind not in "biuf" and values.size:
        raise _refusal(name, numbers)
    if values.dtype.kind not in "bi":
        wrong = (
            values[~((np.abs(values) < 2.0**63) & (values == np.floor(values)))]
            if values.size
            else values
        )
        if wrong.size:
            raise _refusal(name, wrong[0])
    return values.astype(np.int64, copy=False)


def whole_number(name: str, value: object) -> int:
    """`value` as an int. Raises InputError if it is not one whole number."""
    numbers = whole_numbers(name, value)
    if numbers.ndim:
        raise _refusal(name, value)
    return int(numbers)


def _refusal(name: str, value: object) -> InputError:
    text = str(value) if isinstance(value, np.generic) else repr(value)
    excerpt = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
    return InputError(f"{name} is {' '.join(excerpt.split())}: expected a whole number, like 1")
