"""`python -m simulator.kernels`: compile all kernels for this machine before anybody waits for
them."""

from simulator.kernels.registry import KERNELS
from topologies.compilation import compile_all

if __name__ == "__main__":
    compile_all(KERNELS)
