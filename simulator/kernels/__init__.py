"""The loops over columns, in the subset of Python that Numba compiles: run as they are when the
work is small.

A kernel takes records, or arrays: int8 flags, int32 indices, float64 times and bytes, uint64 data,
C-contiguous. Each is called with one set of dtypes, so that it compiles once.

Each file of kernels stands alone, because Numba's cache watches the file of a function, and the
fields of the records that it imports (:func:`topologies._compile.compiled`). A function that a
kernel calls makes no arrays or lists, and no function has functions or comprehensions in it.
"""
