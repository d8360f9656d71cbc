"""The list of all kernels."""

from importlib import import_module
from pkgutil import iter_modules
from types import FunctionType

import simulator.kernels as kernel_package
from grouped_cases import each_case
from simulator.kernels.registry import KERNELS
from topologies import _flow_kernels, _kernels
from topologies.jit import Kernel


def test_all_kernels_are_listed() -> None:
    """A function that no other function of these files calls is a kernel."""
    names = (f"simulator.kernels.{module.name}" for module in iter_modules(kernel_package.__path__))
    lower = _flow_kernels, _kernels
    functions, called = set[Kernel](), set[Kernel]()
    for file in (*lower, *map(import_module, names)):
        in_file = [
            each
            for each in vars(file).values()
            if isinstance(each, FunctionType) and each.__module__ == file.__name__
        ]
        functions.update(in_file)
        called |= {
            vars(file)[name]
            for each in in_file
            for name in each.__code__.co_names
            if isinstance(vars(file).get(name), FunctionType)
        }
    assert functions - called == set(KERNELS)
    assert len(KERNELS) == len(functions - called)


@each_case("kernel", KERNELS)
def test_the_annotations_of_a_kernel_are_complete(kernel: Kernel) -> None:
    names = kernel.__code__.co_varnames[: kernel.__code__.co_argcount]
    assert set(names) == set(kernel.__annotations__) - {"return"}
