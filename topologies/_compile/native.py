"""Compiled kernels as functions, loaded through llvmlite, in a tenth of the time that Numba takes
to start.

A call has three addresses: for the result, for an exception, and of the words of the arguments.
Arrays that a kernel made come with an owner, which Numba's runtime releases.
"""

from __future__ import annotations

import builtins
import ctypes
import pickle
import struct
import sys
from functools import cache
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from topologies._compile import Kernel
from topologies._compile.layouts import Column, Layout, Record, form, layouts, size, words

ENTRY = "entry"
"""The function of the object file that is called."""
_RUNTIME = "numba.core.runtime._nrt_python"


class Code(NamedTuple):
    """A compiled kernel."""

    needs: tuple[str, ...]
    """The names that it uses and that are not in the object file."""
    content: bytes
    """The object file."""


class Native:
    """A compiled kernel; called as the kernel is."""

    def __init__(self, function: Kernel, code: Code) -> None:
        self.function = function
        self._arguments, self._result = layouts(function)
        self._engine = _engine(code)  # holds the code
        prototype = ctypes.PYFUNCTYPE(ctypes.c_int32, *(ctypes.c_void_p,) * 3)
        self._call = prototype(self._engine.get_function_address(ENTRY))
        self._pack = struct.Struct("".join(map(form, self._arguments))).pack
        self._size = max(1, size(self._result))

    def __call__(self, *arguments: Any) -> Any:
        """Run it."""
        flat: list[Any] = []
        try:
            words(self._arguments, arguments, flat)
        except TypeError as error:
            name = f"{self.function.__module__}.{self.function.__name__}"
            raise TypeError(f"{name}: {error}") from None
        result, exception = (ctypes.c_int64 * self._size)(), ctypes.c_void_p()
        if self._call(ctypes.addressof(result), ctypes.addressof(exception), self._pack(*flat)):
            raise _exception(exception)
        return _value(self._result, iter(result))


def _value(layout: Layout, found: Any) -> Any:
    if isinstance(layout, Record):
        return layout.make([_value(part, found) for part in layout.parts])
    if isinstance(layout, Column):
        owner, _, _, _, address, *rest = (next(found) for _ in range(5 + 2 * layout.dimensions))
        return np.asarray(_Memory(layout.dtype, owner, address, rest[: layout.dimensions]))
    if layout is type(None):
        return None
    word = next(found)
    return struct.unpack("d", struct.pack("q", word))[0] if layout is float else layout(word)


class _Memory:
    """The memory of an array that a kernel made."""

    def __init__(self, dtype: np.dtype[Any], owner: int, address: int, shape: list[int]) -> None:
        self.__array_interface__ = {
            "shape": tuple(shape),
            "typestr": dtype.str,
            "data": (address, False),
            "version": 3,
        }
        self._owner, self._release = owner, _release()

    def __del__(self) -> None:
        self._release(self._owner)


def _exception(address: ctypes.c_void_p) -> BaseException:
    """The exception of a kernel: its class and arguments, pickled."""
    data, size = ctypes.c_void_p.from_address(address.value or 0), ctypes.sizeof(ctypes.c_void_p)
    length = ctypes.c_int32.from_address((address.value or 0) + size)
    kind, arguments, *_ = pickle.loads(ctypes.string_at(data.value or 0, length.value))
    result: BaseException = kind(*arguments)
    return result


def _engine(code: Code) -> Any:
    """A kernel in memory, linked to the functions that it needs."""
    import llvmlite.binding as llvm

    _runtime()
    machine = llvm.Target.from_default_triple().create_target_machine()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    for name in code.needs:
        if name.startswith("PyExc_"):
            llvm.add_symbol(name, id(getattr(builtins, name.removeprefix("PyExc_"))))
        elif llvm.address_of_symbol(name) is None:
            raise RuntimeError(f"compiled code needs {name}, which is not in this process")
    engine.add_object_file(llvm.ObjectFileRef.from_data(code.content))
    engine.finalize_object()
    return engine


@cache
def _runtime() -> ModuleType:
    """Numba's management of memory, which is a module of its own."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    runtime = sys.modules.get(_RUNTIME)
    if runtime is None:
        spec = PathFinder.find_spec(_RUNTIME, [str(numba_folder() / "core" / "runtime")])
        assert spec is not None
        assert spec.loader is not None
        runtime = module_from_spec(spec)
        spec.loader.exec_module(runtime)
    for name, address in runtime.c_helpers.items():
        llvm.add_symbol(name if name.startswith("_") else f"NRT_{name}", address)
    return runtime


@cache
def _release() -> Any:
    prototype = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    return prototype(_runtime().c_helpers["MemInfo_release"])


@cache
def numba_folder() -> Path:
    """Where Numba is, without importing it."""
    spec = find_spec("numba")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("No module named 'numba'")
    return Path(spec.origin).parent
