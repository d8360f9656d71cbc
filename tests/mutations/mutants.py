"""Single-line mutations of a source file: a comparison flipped, a sign changed, a statement left
out."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from random import Random
from textwrap import dedent
from typing import NamedTuple

CORE = (
    *("simulator", "simulator/analysis", "simulator/collectives", "simulator/cost_models"),
    *("simulator/engines", "simulator/kernels", "simulator/schedules", "simulator/training"),
)
"""Folders whose files are mutated, with `topologies` (its readers are tested by fuzzing)."""
_PAIRS: tuple[tuple[type[ast.AST], type[ast.AST]], ...] = (
    *(
        (ast.Lt, ast.LtE),
        (ast.Gt, ast.GtE),
        (ast.Eq, ast.NotEq),
        (ast.Is, ast.IsNot),
        (ast.In, ast.NotIn),
    ),
    *(
        (ast.Add, ast.Sub),
        (ast.Mult, ast.Div),
        (ast.LShift, ast.RShift),
        (ast.BitAnd, ast.BitOr),
        (ast.And, ast.Or),
    ),
)
SWAPPED = dict(_PAIRS) | {two: one for one, two in _PAIRS}
SWAPPED |= {
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitXor: ast.BitAnd,
}
_NAMES = (
    ("min", "max"),
    ("minimum", "maximum"),
    ("argmin", "argmax"),
    ("any", "all"),
    ("floor", "ceil"),
)
RENAMED = dict(_NAMES) | {two: one for one, two in _NAMES}
_DELETED = (ast.Raise, ast.AugAssign, ast.Continue, ast.Break)
_KEPT = (ast.JoinedStr, ast.Raise, ast.Import, ast.ImportFrom)
"""What is mutated in no part: messages, and what is imported."""
SMALL = 1000
"""Integers up to which one more or less is a mutation: greater ones are limits of effort and
constants of hashes."""


class Mutant(NamedTuple):
    """One change of one line; `before` and `after` are the line without its indentation."""

    path: str
    line: int
    operator: str
    before: str
    after: str
    text: str
    """The whole file with the change."""
    statement: tuple[str, str]
    """The statement, without what is indented below it, before and after the change."""

    @property
    def change(self) -> tuple[str, str, str]:
        """What stays the same when the file is formatted anew, or when other lines change."""
        before, after = self.statement
        return self.path, _in_one_line(before), _in_one_line(after)

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.operator}\n    - {self.before}\n    + {self.after}"


def mutants(path: str, source: str) -> list[Mutant]:
    """Every mutation of `source`, in the order of its lines.

    >>> several = mutants("x.py", "a = b < c\\na[d] += e")
    >>> [(mutant.line, mutant.operator, mutant.after) for mutant in several]
    [(1, 'Lt', 'a = (b <= c)'), (2, 'delete', 'pass'), (2, 'Add=', 'a[d] -= e')]
    >>> [mutant.after for mutant in mutants("x.py", "if not a:\\n    b = max(c, 1)")]
    ['if (a):', 'b = min(c, 1)', 'b = max(c, (2))', 'b = max(c, (0))']
    """
    lines = source.splitlines(keepends=True)
    tree = ast.parse(source)
    headers = [_header(node) for node in ast.walk(tree) if isinstance(node, ast.stmt)]
    mutant_of: dict[str, Mutant] = {}
    for node, operator, replacement in _changes(tree):
        if node.lineno != node.end_lineno:
            continue
        number = node.lineno - 1
        line = lines[number].encode()
        after = (
            line[: node.col_offset] + replacement.encode() + line[node.end_col_offset :]
        ).decode()
        text = "".join([*lines[:number], after, *lines[number + 1 :]])
        if after != lines[number]:
            first, last = max(header for header in headers if header[0] <= number < header[1])
            before = "".join(lines[first:last])
            changed = "".join([*lines[first:number], after, *lines[number + 1 : last]])
            shown = lines[number].strip(), after.strip()
            mutant = Mutant(path, node.lineno, operator, *shown, text, (before, changed))
            mutant_of.setdefault(text, mutant)
    return sorted(mutant_of.values(), key=lambda mutant: mutant.line)


def _header(node: ast.stmt) -> tuple[int, int]:
    """The first line of a statement, and the line after it or after its colon; from 0."""
    body = getattr(node, "body", None)
    end = body[0].lineno - 1 if body else node.end_lineno or node.lineno
    return node.lineno - 1, max(end, node.lineno)


def _in_one_line(statement: str) -> str:
    """A statement as Python writes it, whatever its layout.

    >>> _in_one_line("    elif (\\n        a(\\n            b,\\n        )\\n    ):\\n")
    'if a(b):'
    """
    text = dedent(statement).strip().removeprefix("el")
    try:
        return ast.unparse(ast.parse(text))
    except SyntaxError:
        return ast.unparse(ast.parse(f"{text}\n    pass")).removesuffix("pass").strip()


def draw(mutants: list[Mutant], count: int, seed: int) -> list[Mutant]:
    """Up to `count` lines, equally likely each, and one mutation of each of them."""
    lines: dict[tuple[str, int], list[Mutant]] = defaultdict(list)
    for mutant in mutants:
        lines[mutant.path, mutant.line].append(mutant)
    random = Random(seed)
    return [
        random.choice(lines[line]) for line in random.sample(sorted(lines), min(count, len(lines)))
    ]


def core_files(root: Path) -> list[str]:
    """The files that are mutated, from the root of the tree."""
    folders = [root / folder for folder in (*CORE, "topologies")]
    return sorted(str(path.relative_to(root)) for folder in folders for path in folder.glob("*.py"))


def _changes(tree: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, str, str]]:
    """A node of one line, the operator, and what replaces the node's text."""
    for node in _nodes(tree):
        test = getattr(node, "test", None)
        if isinstance(test, ast.expr) and not isinstance(test, ast.UnaryOp):
            yield test, "not", f"(not {_in_brackets(test)})"
        if isinstance(node, _DELETED) or _is_effect(node):
            yield node, "delete", "pass"  # type: ignore[misc]
        if isinstance(node, ast.Return) and node.value is not None:
            yield node, "return", "return None"
        if isinstance(node, ast.AugAssign) and type(node.op) in SWAPPED:
            changed = deepcopy(node)
            changed.op = SWAPPED[type(node.op)]()  # type: ignore[assignment]
            yield node, f"{type(node.op).__name__}=", ast.unparse(changed)
        if isinstance(node, ast.expr):
            for operator, changed_text in _expressions(node):
                yield node, operator, changed_text


def _nodes(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes but annotations, messages, what is imported, and `strict`, with which a program
    checks itself."""
    yield node
    if isinstance(node, _KEPT):
        return
    for name, value in ast.iter_fields(node):
        if name not in ("annotation", "returns", "decorator_list"):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and getattr(child, "arg", "") != "strict":
                    yield from _nodes(child)


def _is_effect(node: ast.AST) -> bool:
    """Whether a statement calls something or writes into something: without a plain name nothing
    else would run."""
    if isinstance(node, ast.Expr):
        return not isinstance(node.value, ast.Constant)
    return isinstance(node, ast.Assign) and not isinstance(node.targets[0], ast.Name | ast.Tuple)


def _in_brackets(node: ast.expr) -> str:
    return (
        f"({ast.unparse(node)})"
        if isinstance(node, ast.BoolOp | ast.Compare | ast.UnaryOp)
        else ast.unparse(node)
    )


def _expressions(node: ast.expr) -> Iterator[tuple[str, str]]:
    """The operator and the new text of each change of one expression."""
    changed = deepcopy(node)
    if isinstance(changed, ast.Compare):
        for place, operator in enumerate(changed.ops):
            if type(operator) in SWAPPED:
                changed.ops[place] = SWAPPED[type(operator)]()  # type: ignore[call-overload]
                yield type(operator).__name__, f"({ast.unparse(changed)})"
                changed.ops[place] = operator
    elif isinstance(changed, ast.BinOp | ast.BoolOp) and type(changed.op) in SWAPPED:
        operator_name = type(changed.op).__name__
        changed.op = SWAPPED[type(changed.op)]()  # type: ignore[assignment]
        yield operator_name, f"({ast.unparse(changed)})"
    elif isinstance(changed, ast.UnaryOp):
        yield type(changed.op).__name__, f"({ast.unparse(changed.operand)})"
    elif isinstance(changed, ast.Constant) and isinstance(changed.value, bool):
        yield str(changed.value), str(not changed.value)
    elif (
        isinstance(changed, ast.Constant)
        and isinstance(changed.value, int)
        and changed.value <= SMALL
    ):
        yield "+1", f"({changed.value + 1})"
        yield "-1", f"({changed.value - 1})"
    elif isinstance(changed, ast.Name) and changed.id in RENAMED:
        yield changed.id, RENAMED[changed.id]
    elif isinstance(changed, ast.Attribute) and changed.attr in RENAMED:
        yield changed.attr, f"({ast.unparse(changed.value)}).{RENAMED[changed.attr]}"
