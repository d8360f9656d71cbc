"""All kernels, in the order in which commands need them. The largest is second, since two processes
take turns."""

from simulator.kernels import (
    cells,
    copies,
    dependencies,
    fair_sharing,
    first_come,
    path,
    queues,
    rates,
)
from topologies import _flow_kernels, _kernels
from topologies.jit import Kernel

KERNELS: tuple[Kernel, ...] = (
    dependencies.derive,
    fair_sharing.simulate,
    dependencies.execute,
    dependencies.chain,
    dependencies.invert,
    first_come.simulate,
    rates.simulate,
    cells.fill,
    copies.follow,
    _kernels.distances,
    path.walk,
    _kernels.shortest,
    _flow_kernels.least_flow,
    dependencies.meetings,
    queues.idle,
)
