"""Kernels compiled by Numba to the bytes of an object file: no Numba is needed to load them
(:mod:`topologies._compile.native`)."""

from __future__ import annotations

from functools import cache
from itertools import chain
from types import FunctionType
from typing import Any

import numba
from llvmlite import ir
from numba.core import types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Flags, compile_extra
from numba.core.compiler_lock import global_compiler_lock
from numba.core.datamodel import models, register_default
from numba.core.registry import cpu_target
from numba.core.typing.templates import AbstractTemplate
from numba.np.arrayobj import populate_array

from topologies._compile import Kernel
from topologies._compile.layouts import DIMENSIONS, Column, Layout, Record, layouts, sample
from topologies._compile.native import ENTRY, Code

_BYTE, _WORD = ir.IntType(8), ir.IntType(64)


def build(function: Kernel) -> Code:
    """Compile a kernel for what its annotations say."""
    arguments, result = layouts(function)
    argument_types = tuple(map(_type_of, arguments))
    with global_compiler_lock:
        cpu_target.typing_context.refresh()
        cpu_target.target_context.refresh()
        code = _compile(function, argument_types, Library)
        returned, promised = code.signature.return_type, numba.typeof(sample(result))
        if returned != promised:
            name = f"{function.__module__}.{function.__name__}"
            raise TypeError(f"{name} returns {returned}: its annotation says {promised}")
        library: Any = code.library
        library.add_ir_module(_entry(code, arguments))
        library.get_function(code.fndesc.llvm_func_name).linkage = "internal"
        library.finalize()
    module = library._final_module
    symbols = chain(module.functions, module.global_variables)
    needs = [symbol.name for symbol in symbols if symbol.is_declaration]
    return Code(tuple(name for name in needs if not name.startswith("llvm.")), library.content)


def _compile(function: Kernel, arguments: tuple[Any, ...], library: Any, **options: bool) -> Any:
    flags: Any = Flags()
    flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
    flags.nrt = True
    for name, value in options.items():
        setattr(flags, name, value)
    typing, target = cpu_target.typing_context, cpu_target.target_context
    content = library(target.codegen(), function.__name__)
    return compile_extra(
        typing, target, _linked(function), arguments, None, flags, {}, library=content
    )


class Library(JITCodeLibrary):  # type: ignore[misc]
    """A kernel, compiled to an object file, and not loaded."""

    def _finalize_final_module(self) -> None:
        self.content = self._codegen._tm.emit_object(self._final_module)
        self._finalized = True


class PartLibrary(JITCodeLibrary):  # type: ignore[misc]
    """A part of kernels, which is optimised and compiled as a part of them."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalized = True


# Functions that kernels call.


def _linked(function: Kernel) -> Kernel:
    """The function with the parts that it calls: functions of its package."""
    scope, package = dict(function.__globals__), function.__module__.rpartition(".")[0]
    for name in function.__code__.co_names:
        part = scope.get(name)
        if isinstance(part, FunctionType) and part.__module__.rpartition(".")[0] == package:
            scope[name] = _part(part)
    return FunctionType(function.__code__, scope, function.__name__)


class Part:
    """A function that kernels call. It borrows its arrays and makes none: counting references to
    every array of a record would take most of the time."""

    def __init__(self, function: Kernel) -> None:
        self.function = function
        part, signatures = self, dict[tuple[Any, ...], Any]()

        class Call(AbstractTemplate):  # type: ignore[misc]
            key = part

            def generic(self, arguments: Any, names: Any) -> Any:
                general = tuple(map(_general, arguments))
                if names:
                    return None
                if general not in signatures:
                    signatures[general] = part.compile(general)
                return signatures[general]

        self._numba_type_ = types.Function(Call)

    def compile(self, arguments: tuple[Any, ...]) -> Any:
        """Compile it for types of arguments; returns its signature."""
        code = _compile(self.function, arguments, PartLibrary, nrt=False, forceinline=True)
        cpu_target.target_context.insert_user_function(self, code.fndesc, [code.library])
        return code.signature


_part = cache(Part)


def _general(kind: Any) -> Any:
    """One type for all signed integers, and for all constants of a type, so that a function is
    compiled once."""
    kind = types.unliteral(kind)
    is_signed = isinstance(kind, types.Integer) and kind.signed
    return types.int64 if is_signed else kind


# Arguments.


class RecordType(types.NamedTuple):  # type: ignore[misc]
    """A record, which is one argument of a part. As Numba passes tuples, each of its words would
    be one."""

    def __init__(self, parts: tuple[Any, ...], make: Any) -> None:
        super().__init__(parts, make)
        self.name = f"{make.__module__}.{make.__name__}"  # its fields have types of their own


@register_default(RecordType)
class _RecordModel(models.TupleModel):  # type: ignore[misc]
    def get_argument_type(self) -> Any:
        return self.get_value_type()

    def as_argument(self, builder: Any, value: Any) -> Any:
        return value

    def from_argument(self, builder: Any, value: Any) -> Any:
        return value


def _type_of(layout: Layout) -> Any:
    if not isinstance(layout, Record):
        return numba.typeof(sample(layout))
    parts, make = tuple(map(_type_of, layout.parts)), getattr(layout.make, "__self__", None)
    return RecordType(parts, make) if make else types.Tuple(parts)


def _entry(code: Any, arguments: tuple[Layout, ...]) -> Any:
    """A function that calls a kernel with the words that it reads at an address; see `words`."""
    context, names = cpu_target.target_context, code.fndesc
    module = code.library.create_ir_module(ENTRY)
    kernel = context.declare_function(module, names)
    result, exception, *_ = kernel.ftype.args
    kind = ir.FunctionType(ir.IntType(32), (result, exception, _WORD.as_pointer()))
    entry = ir.Function(module, kind, ENTRY)
    builder, (result, exception, address) = ir.IRBuilder(entry.append_basic_block()), entry.args
    values = list[Any]()
    for layout, of_type in zip(arguments, names.argtypes, strict=True):
        value, address = _value(builder, layout, of_type, address)
        values.append(value)
    packed = context.get_arg_packer(names.argtypes).as_arguments(builder, values)
    builder.ret(builder.call(kernel, (result, exception, *packed)))
    return module


def _value(builder: Any, layout: Layout, of_type: Any, address: Any) -> tuple[Any, Any]:
    """The value of a layout that lies at an address, and the address behind it."""
    context = cpu_target.target_context
    if isinstance(layout, Record):
        parts = list[Any]()
        for part, of_part in zip(layout.parts, of_type, strict=True):
            value, address = _value(builder, part, of_part, address)
            parts.append(value)
        return context.make_tuple(builder, of_type, parts), address
    behind, word = builder.gep(address, (_WORD(1),)), builder.load(address)
    if isinstance(layout, Column):
        return _array(builder, layout, of_type, word), behind
    if layout is float:
        return builder.bitcast(word, ir.DoubleType()), behind
    return builder.trunc(word, ir.IntType(1)) if layout is bool else word, behind


def _array(builder: Any, layout: Column, of_type: Any, address: Any) -> Any:
    """The array whose object lies at an address."""
    context = cpu_target.target_context
    array = context.make_array(of_type)(context, builder)
    words = builder.inttoptr(builder.add(address, _WORD(DIMENSIONS)), _WORD.as_pointer())

    def load(place: int) -> Any:
        return builder.load(builder.gep(words, (_WORD(place),)))

    def sizes(place: int) -> list[Any]:
        pointer = builder.inttoptr(load(place), _WORD.as_pointer())
        places = range(layout.dimensions)
        return [builder.load(builder.gep(pointer, (_WORD(place),))) for place in places]

    populate_array(
        array,
        data=builder.inttoptr(load(-2), array.data.type),
        shape=sizes(0),
        strides=sizes(1),
        itemsize=_WORD(layout.dtype.itemsize),
        meminfo=None,
    )
    return array._getvalue()
