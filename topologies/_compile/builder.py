"""Kernels compiled by Numba to the bytes of an object file: no Numba is needed to load them
(:mod:`topologies._compile.native`)."""

from __future__ import annotations

from functools import cache
from itertools import chain
from types import FunctionType
from typing import Any, NamedTuple

from topologies._compile import Kernel
from topologies._compile.layouts import layouts, sample


class Code(NamedTuple):
    """A compiled kernel."""

    symbol: str
    """The name of the function in the object file."""
    needs: tuple[str, ...]
    """The names that it uses and that are not in the object file."""
    content: bytes


def build(function: Kernel) -> Code:
    """Compile a kernel for what its annotations say."""
    import numba

    arguments, result = layouts(function)
    type_of: Any = numba.typeof
    types = tuple(type_of(sample(layout)) for layout in arguments)
    options: Any = dict.fromkeys(("no_cpython_wrapper", "no_cfunc_wrapper"), True)
    dispatcher = numba.njit(**options)(_linked(function))
    dispatcher.compile(types)
    code = dispatcher.overloads[types]
    returned, promised = code.signature.return_type, type_of(sample(result))
    if returned != promised:
        name = f"{function.__module__}.{function.__name__}"
        raise TypeError(f"{name} returns {returned}: its annotation says {promised}")
    module = code.library._final_module
    symbols = chain(module.functions, module.global_variables)
    needs = [symbol.name for symbol in symbols if symbol.is_declaration]
    return Code(
        code.fndesc.llvm_func_name,
        tuple(name for name in needs if not name.startswith("llvm.")),
        code.library._get_compiled_object(),
    )


def _linked(function: Kernel) -> Kernel:
    """The function with the compiled forms of the functions of its package that it calls."""
    scope, package = dict(function.__globals__), function.__module__.rpartition(".")[0]
    for name in function.__code__.co_names:
        helper = scope.get(name)
        if isinstance(helper, FunctionType) and helper.__module__.rpartition(".")[0] == package:
            scope[name] = _compiled_helper(helper)
    return FunctionType(function.__code__, scope, function.__name__)


@cache
def _compiled_helper(function: Kernel) -> Kernel:
    """Part of the kernels that call it. It borrows its arrays and makes none: counting references
    to every array of a record would take most of the time."""
    import numba

    options: Any = dict.fromkeys(("no_cpython_wrapper", "no_cfunc_wrapper", "forceinline"), True)
    options["_nrt"] = False
    result: Any = numba.njit(**options)(_linked(function))
    template = result.get_call_template
    result.get_call_template = lambda types, names: template(tuple(map(_general, types)), names)
    return result  # type: ignore[no-any-return]


def _general(kind: Any) -> Any:
    """One type for all signed integers, and for all constants of a type, so that a function is
    compiled once."""
    import numba

    types: Any = numba.types
    kind = types.unliteral(kind)
    return types.int64 if isinstance(kind, types.Integer) and kind.signed else kind
