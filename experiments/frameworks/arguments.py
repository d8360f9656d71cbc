"""The arguments --key value in a shell script, with the values of its variables. No command is
run. Branches that do not run have no arguments."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import NamedTuple

from experiments.frameworks.branches import END, Branches
from topologies.errors import InputError

CONDITION = "condition."
"""What precedes the key of an argument in a branch that may run."""
_TOKEN = re.compile(
    r"""(?P<skip>(?:[^\S\n]|\\\r?\n)+|\#[^\n]*)|(?P<mark>\n|;;|&&|<<<
    |<<-?[^\S\n]*['"\\]?(?P<end>[\w-]+)['"]?|\|\||&>|[<>]&|[();|&<>])
    |(?P<word>(?:"(?:\\.|[^"\\])*"|'[^']*'|\\.|\$\(\([^()]*(?:\([^()]*\)[^()]*)*\)\)|\$\([^()]*\)
    |\$\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}|[^\s();|&<>"'\\])+)""",
    re.VERBOSE | re.DOTALL,
)
_QUOTED = re.compile(r""""((?:\\.|[^"\\])*)"|'([^']*)'|\\(.)""", re.DOTALL)
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)(?::?-([^{}]*))?\})")
_PRODUCT = re.compile(r"\$\(\(((?: *\d{1,9} *\*)* *\d{1,9} *)\)\)", re.ASCII)
_SHELL = re.compile(r"\b(?:ba|z)?sh\b|\bsbatch\b|\bsrun\b|\.slurm\b")
"""What is in a line behind which a script comes, and no other text."""
_LONGEST = 10_000
_DEEPEST = 100


class _Token(NamedTuple):
    text: str
    """A word without its quotes, or a mark between words."""
    line: int
    is_word: bool
    inside: bool = False
    """Whether it is in a word that is a text of several."""


def arguments_in(text: str, name: str) -> Iterator[tuple[str, object, int]]:
    """Keys with underscores, values, and lines of all arguments in the text of a script: True
    without a value, a list of several values. `program` is what runs, like pretrain_gpt.py.

    Raises InputError for a quote without an end, and for branches in too many others.
    """
    variables, branches, begins, prints = dict[str, str](), Branches(), True, False
    key, line, values = "", 0, list[str]()
    for token in [*_tokens(text, name), _Token("\n", 0, is_word=False)]:
        prints = prints if token.is_word or token.text == END else False
        prints |= begins and not token.inside and token.text in ("echo", "printf")
        if prints:
            # What a script says of its own options is no argument.
            continue
        word = _expanded(token.text, variables) if token.is_word else ""
        is_key = bool(re.match(r"--[A-Za-z]", word))
        # A second value that is not known, such as $ARGS, stands for other arguments.
        ends = "[@]" in word or word.endswith(".py") or ("$" in word and values != [])
        if key and (not token.is_word or is_key or ends):
            value: object = values[0] if len(values) == 1 else values or True
            if branches.runs is not False:
                yield CONDITION * (branches.runs is None) + key, value, line
            key = ""
        if branches.read(word if token.is_word else token.text, begins):
            begins = not token.is_word or word in ("then", "else")
            continue
        branches.follow(word if token.is_word else token.text, token.is_word)
        if branches.depth > _DEEPEST:
            raise InputError(f"{name} line {token.line}: nested more than {_DEEPEST} deep")
        if re.fullmatch(r"(?:.*/)?pretrain\w*\.py", word):
            yield "program", word.rpartition("/")[2], token.line
        if is_key:
            first, equals, value_text = word[2:].partition("=")
            key, line = first.replace("-", "_"), token.line
            values = [value_text] if equals else []
        elif key:
            values.append(word)
        elif assignment := re.match(r"(\w+)=(.*)", word, re.DOTALL):
            variable, text_value = assignment.groups()
            # In a branch that may run, another value makes a variable unknown.
            differs = branches.runs is None and variables.get(variable, text_value) != text_value
            if branches.runs is not False:
                variables[variable] = f"${variable}" if differs else text_value
        begins = not token.is_word or word == "do"


def _tokens(text: str, name: str) -> Iterator[_Token]:
    place, line, begin, ends = 0, 1, 0, list[str]()
    lines = dict[str, list[int]]()
    for each in re.finditer(".+", text):
        lines.setdefault(each[0].strip(), []).append(each.end())
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise InputError(f"{name} line {line}: {text[place]} has no end: close the quote")
        raw, place = match[0], match.end()
        if match["mark"]:
            yield _Token(raw, line, is_word=False)
        elif match["word"]:
            yield from _of_word(raw, line)
        line += raw.count("\n")
        if match["end"]:
            ends.append(match["end"])
        elif raw == "\n":
            after = (
                place if _SHELL.search(text, begin, place) else _end_of_texts(ends, lines, place)
            )
            line += text.count("\n", place, after)
            begin, place, ends = after, after, []


def _end_of_texts(ends: Sequence[str], lines: Mapping[str, Sequence[int]], place: int) -> int:
    """The place behind texts like <<EOF, which lines with these words end. `lines` has the ends of
    lines. What no line ends is no text, like 1<<2."""
    for end in ends:
        places = lines.get(end, ())
        if (number := bisect_right(places, place)) < len(places):
            place = places[number]
    return place


def _of_word(raw: str, line: int) -> Iterator[_Token]:
    """A word without quotes; the arguments in it, if it is a text of several."""
    plain = _QUOTED.sub(lambda each: each[1] or each[2] or (each[3] or "").strip("\n"), raw)
    if plain == raw or not re.search(r"(?:^|\s|=)--[A-Za-z]\S*\s", plain + " "):
        yield _Token(plain, line, is_word=True)
        return
    if assignment := re.match(r"\w+\+?=", plain):
        plain = plain[assignment.end() :]
    for number, words in enumerate(plain.split("\n")):
        for word in words.replace("\\", " ").split():
            yield _Token(word.strip("'\""), line + number, is_word=True, inside=True)
    yield _Token(END, line, is_word=False)


def _expanded(word: str, variables: dict[str, str]) -> str:
    """A word with the values of the variables that are known."""

    def value(match: re.Match[str]) -> str:
        text = variables.get(match[1] or match[2], match[3])
        return text or match[0]

    def product(match: re.Match[str]) -> str:
        return str(prod(int(number) for number in match[1].split("*")))

    return _PRODUCT.sub(product, _VARIABLE.sub(value, word)[:_LONGEST])
