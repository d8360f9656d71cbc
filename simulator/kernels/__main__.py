"""`python -m simulator.kernels`: compile all kernels for this machine before anybody waits for
them."""

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
from topologies.compilation import compile_all
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


if __name__ == "__main__":
    compile_all(KERNELS)
