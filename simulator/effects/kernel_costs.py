"""What the kernels of a library on GPUs add to the time that messages take on links."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from simulator.effects.jobs import Jobs
from simulator.effects.parameter_units import Seconds
from topologies.topology import Floats

PHASES = {"all_reduce": 2.0, "all_gather": 1.0, "reduce_scatter": 1.0, "all_to_all": 1.0}
"""How often about V crosses the links of a rank in a collective."""
IN_SWITCHES = ("nvls", "nvls_tree", "multimem_one_shot", "sharp")
"""Algorithms in which switches reduce: no rank keeps a part, and the library's pieces are
simulated."""
DIRECT = ("pairwise", "pairwise_sync", "linear_all_to_all")
"""All-to-alls in which each rank sends a message to each other rank."""


class KernelCosts(NamedTuple):
    """What NCCL's kernels cost besides links and launch."""

    own: Seconds = 0.0
    """Seconds to copy a byte of the part V/p that a rank keeps, from its input to its output."""
    piece: Seconds = 0.0
    """Seconds of a piece of V besides its bytes, in a job on one node."""
    message: Seconds = 0.0
    """Seconds of each message of an all-to-all inside a node."""
    message_between: Seconds = 0.0
    """Seconds of each message of an all-to-all to another node."""

    def shares(
        self, jobs: Jobs, nbytes: Floats | float, slowness: Floats | float
    ) -> dict[str, Floats]:
        """Seconds by name, each in the jobs' shape. `slowness` is 1/β inside a node."""
        phases = jobs.by_algorithm(_phases(jobs), 0.0)
        direct = jobs.by_algorithm(dict.fromkeys(DIRECT, 1.0), 0.0)
        near = np.minimum(jobs.per_node, jobs.ranks)
        # Few pieces fill the pipeline slowly, and each costs a time: the best number of them takes
        # twice the square root of the two.
        filling = 2 * np.sqrt(self.piece * phases * nbytes * slowness)
        sent = (near - 1) * self.message + (jobs.ranks - near) * self.message_between
        return {
            "own copies": np.asarray(np.sign(phases) * self.own * nbytes / jobs.ranks),
            "pieces": np.asarray(np.where(jobs.nodes == 1, filling, 0.0)),
            "messages": np.asarray(direct * sent),
        }


def _phases(jobs: Jobs) -> dict[str, float]:
    """`PHASES` of each algorithm in which ranks send to ranks."""
    pairs = zip(jobs.names, jobs.collectives, strict=True)
    return {name: PHASES.get(each, 0.0) for name, each in pairs if name not in IN_SWITCHES}
