"""How few channels a library opens for a message to one peer in a node."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from simulator.effects.jobs import Jobs
from simulator.effects.parameter_units import Bytes, Count, Seconds, Word
from topologies.topology import Floats


class PeerChannels(NamedTuple):
    """NCCL divides its channels among all peers, whether they send or not. It opens more for one
    peer when a channel has many bytes (`addP2pToPlan` in src/enqueue.cc)."""

    kind: Word
    """The kind of link that the channels fill together."""
    slowness: Seconds
    """1/β of one channel in seconds a byte."""
    total: Count = 32
    """The channels of all peers together, a power of two."""
    nbytes: Bytes = 2.0**24
    """A message has more channels if one of them had more bytes than this."""

    def of(self, ranks: Floats | float, nbytes: Floats | float) -> Floats:
        """The channels of a message of `nbytes` among `ranks` on one node.

        >>> few = PeerChannels("node", 1 / 20.4e9)
        >>> few.of(8, np.array([1.0, 2.0**26, 2.0**27, 2.0**34])).tolist()
        [4.0, 4.0, 8.0, 32.0]
        """
        doublings = np.floor(np.log2(self.total / np.asarray(ranks)))
        least = 2.0 ** np.maximum(doublings, 0.0)
        more = np.ceil(np.log2(np.maximum(nbytes / (least * self.nbytes), 1.0)))
        return np.asarray(np.minimum(least * 2.0**more, self.total))

    def excess(self, jobs: Jobs, nbytes: Floats | float, slowness: Floats | float) -> Floats:
        """Seconds that a message of `nbytes` takes more than with all channels, whose 1/β is
        `slowness`, in the shape of `jobs`. Jobs on several nodes have none."""
        slower = np.maximum(self.slowness / self.of(jobs.ranks, nbytes) - slowness, 0.0)
        return np.asarray(np.where(jobs.nodes == 1, nbytes * slower, 0.0))
