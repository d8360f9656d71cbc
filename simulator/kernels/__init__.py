"""The loops over columns, in the subset of Python that Numba compiles: run as they are when the
work is small.

Each file stands alone, because Numba's cache watches the file of a function and nothing else. Each
kernel is called with one set of dtypes: int8 flags, int32 indices, float64 times and bytes, uint64
data, C-contiguous.
"""
