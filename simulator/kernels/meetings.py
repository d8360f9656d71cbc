"""Where operations of one call meet at a medium or a lane."""

from __future__ import annotations

import numpy as np

from simulator.kernels.records import Csr, Ints


def meetings(call: Ints, route: Ints, places: Csr, shift: Ints, kinds: int) -> int:
    """An operation that meets another one of its call from another shift, or -1.

    Operation i is at the `places` of its route, each of which is one of so many `kinds`, with a
    `shift` each. Two of one call that are at a place of the same kind with unequal shifts stand for
    some that meet there, and whose order is not the same at all places of the kind.
    """
    last, seen = np.full(kinds, -1, np.int32), np.zeros(kinds, np.int32)
    for i in range(len(call)):
        for k in range(places.indptr[route[i]], places.indptr[route[i] + 1]):
            kind = places.indices[k]
            if last[kind] == call[i] and seen[kind] != shift[k]:
                return i
            last[kind], seen[kind] = call[i], shift[k]
    return -1
