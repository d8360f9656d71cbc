"""The loops over columns, in the subset of Python that Numba compiles: run as they are when the
work is small.

A kernel takes records, arrays and numbers. The arrays have int8 flags, int32 indices, float64 times
and bytes, or uint64 data, C-contiguous. Its annotations say what it takes and returns, and are
compiled as they are: an array of two dimensions is `Annotated[Floats, 2]`. A call with other arrays
raises TypeError. :mod:`simulator.kernels.__main__` lists all kernels, in the order of need.

A kernel calls functions of this package only (:mod:`topologies.compilation`). A function that a
kernel calls makes no arrays or lists, and no function has functions or comprehensions in it.
"""
