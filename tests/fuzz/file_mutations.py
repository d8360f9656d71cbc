"""Damage that files come with: bits, cuts, lines, columns, numbers, nesting and encodings."""

import gzip
import pickletools
import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from random import Random
from typing import NamedTuple

Mutation = Callable[[bytes, Random], bytes]

MOST = 2**22
"""Bytes of a mutated file, about."""
_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_TOKEN = re.compile(rb"[A-Za-z_][\w.]*|\d[\w.]*|[^\w\s]")
_NUMBERS = (
    *(b"0", b"-0", b"-1", b"1", b"2", b"1e400", b"-1e400", b"1e308", b"1e-400", b"1e-320", b"nan"),
    *(b"inf", b"-inf"),
    *(b"N/A", b"null", b"true", b"0x10", b"1_000", b"1,5", b"1.", b".5", b"1e", b"--1", b"+3"),
    *(b"0.1", b"999999999"),
    *(
        b"2147483648",
        b"9223372036854775807",
        b"9223372036854775808",
        b"1" + b"0" * 25,
        b"9" * 400,
        b"9" * 5000,
    ),
    *("٣".encode(), "²".encode(), "１２".encode(), b"1e5", b"1e22", b"4294967296"),
)
_WORDS = (
    *(b"null", b"[]", b"{}", b'""', b"''", b"[[]]", b"{a: b}", b"true", b"~", b"!!python/object:x"),
    *(b"&a", b"*a"),
    *(b"<!DOCTYPE x>", b"&amp;", b"&x;", b"#", b"-", b":", b",", b'"', b"'", b"\\", b"\\u0000"),
    *(b"\\ud800", b"%s"),
    *(
        "é".encode(),
        "\u2028".encode(),
        "\u202e".encode(),
        "😀".encode(),
        b"\x1b[31m",
        b"\t",
        b"\r",
        b"\x0c",
        b"\x85",
    ),
)
_VALUE = re.compile(rb'(?<=[:\[,])\s*(?:"[^"\n]*"|-?[\d.]+|null|true|false)(?=\s*[,\]}])')
"""A value of JSON."""
_PICKLE = b"\x80"
_PUSHES = ("BININT", "BININT1", "BININT2", "LONG1", "BINUNICODE", "NONE", "NEWTRUE", "NEWFALSE")
_OPENINGS = (b"[", b"{", b"(", b'{"a":', b"[{", b"<a>", b"- ", b"<pci>", b'"', b"? ", b"  ")


class Mutated(NamedTuple):
    """A damaged file, and the names of the mutations that made it."""

    data: bytes
    how: tuple[str, ...]


def mutated(data: bytes, donors: Sequence[bytes], random: Random) -> Mutated:
    """`data` after one to three mutations; pieces of `others` may get into it."""
    if data.startswith(b"\x1f\x8b") and random.random() < 0.8:
        inside = mutated(gzip.decompress(data), donors, random)
        return Mutated(gzip.compress(inside.data, 1, mtime=0), ("unpacked", *inside.how))
    names = random.choices(_CHOICES, k=random.choice((1, 1, 2, 3)))
    for name in names:
        data = (
            _spliced(data, random.choice(donors), random)
            if name == _SPLICE
            else MUTATIONS[name](data, random)
        )
        data = data[:MOST]
    return Mutated(data, tuple(names))


def _bits(data: bytes, random: Random) -> bytes:
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 4, 32)) if changed else 0):
        changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed)


def _noise(data: bytes, random: Random) -> bytes:
    at = random.randint(0, len(data))
    return data[:at] + random.randbytes(random.choice((1, 3, 40))) + data[at:]


def _cut(data: bytes, random: Random) -> bytes:
    return data[: random.randint(0, len(data))]


def _beheaded(data: bytes, random: Random) -> bytes:
    return data[random.randint(0, len(data)) :]


def _hole(data: bytes, random: Random) -> bytes:
    start = random.randint(0, len(data))
    return data[:start] + data[start + random.choice((1, 10, 200)) :]


def _lines_twice(data: bytes, random: Random) -> bytes:
    lines = data.splitlines(keepends=True)
    start = random.randint(0, len(lines))
    block = lines[start : start + random.choice((1, 1, 5, 50))]
    return b"".join([*lines[:start], *(block * random.choice((2, 2, 3, 100))), *lines[start:]])


def _lines_away(data: bytes, random: Random) -> bytes:
    lines = data.splitlines(keepends=True)
    start = random.randint(0, len(lines))
    return b"".join(lines[:start] + lines[start + random.choice((1, 1, 3, 20)) :])


def _lines_mixed(data: bytes, random: Random) -> bytes:
    lines = data.splitlines(keepends=True)
    start = random.randint(0, len(lines))
    block = lines[start : start + 8]
    random.shuffle(block)
    return b"".join([*lines[:start], *block, *lines[start + 8 :]])


def _lines_joined(data: bytes, random: Random) -> bytes:
    pieces = data.split(b"\n")
    at = random.randrange(len(pieces))
    return b"\n".join(pieces[:at]) + b"".join(pieces[at:])


def _number(data: bytes, random: Random) -> bytes:
    matches = list(_NUMBER.finditer(data))
    for match in sorted(
        random.sample(matches, min(len(matches), random.choice((1, 2, 8)))), key=re.Match.start
    )[::-1]:
        data = data[: match.start()] + random.choice(_NUMBERS) + data[match.end() :]
    return data


def _every_number(data: bytes, random: Random) -> bytes:
    """One number everywhere that it is."""
    numbers = _NUMBER.findall(data)
    return data.replace(random.choice(numbers), random.choice(_NUMBERS)) if numbers else data


def _token(data: bytes, random: Random) -> bytes:
    matches = list(_TOKEN.finditer(data))
    if not matches:
        return data
    match = random.choice(matches)
    replacement = random.choice((random.choice(matches)[0], random.choice(_WORDS), b""))
    return data[: match.start()] + replacement + data[match.end() :]


def _word(data: bytes, random: Random) -> bytes:
    at = random.randint(0, len(data))
    return data[:at] + random.choice(_WORDS) + data[at:]


def _columns(data: bytes, random: Random) -> bytes:
    """Two columns of every line swapped, or of one line; or one column gone."""
    comma = data.count(b",") > data.count(b" ")
    lines = data.split(b"\n")
    column, partner = random.randrange(12), random.randrange(12)
    chosen = range(len(lines)) if random.random() < 0.5 else [random.randrange(len(lines))]
    for k in chosen:
        cells = lines[k].split(b",") if comma else re.split(rb"(?<=\S)(?=\s)", lines[k])
        if max(column, partner) < len(cells):
            cells[column], cells[partner] = (
                cells[partner],
                b"" if random.random() < 0.1 else cells[column],
            )
        lines[k] = (b"," if comma else b"").join(cells)
    return b"\n".join(lines)


def _nested(data: bytes, random: Random) -> bytes:
    at = random.choice((0, random.randint(0, len(data))))
    return data[:at] + random.choice(_OPENINGS) * random.choice((3, 100, 3000, 100_000)) + data[at:]


def _deep(data: bytes, random: Random) -> bytes:
    """A value becomes a list of lists of lists, which ends."""
    depth = random.choice((3, 100, 900, 950, 990, 3000, 100_000))
    if data.startswith(_PICKLE):
        return _repickled(data, b"]" * depth + b"a" * (depth - 1), random)
    matches = list(_VALUE.finditer(data))
    if not matches:
        return data
    match = random.choice(matches)
    return data[: match.start()] + b"[" * depth + b"]" * depth + data[match.end() :]


def _shared(data: bytes, random: Random) -> bytes:
    """A value of a pickle becomes lists, or tuples, whose entries are all the same."""
    if not data.startswith(_PICKLE):
        return _deep(data, random)
    width, tuples = random.choice((2, 10, 1000)), random.random() < 0.3
    code = b"K\x01"
    for level in range(random.choice((2, 12, 30))):
        place = b"%c" % (200 + level)
        entries = (b"h" + place) * width
        code += b"q" + place + (b"0(" + entries + b"t" if tuples else b"0](" + entries + b"e")
    return _repickled(data, code, random)


def _repickled(data: bytes, code: bytes, random: Random) -> bytes:
    """A pickle with `code` in the place of a number, a text or None."""
    try:
        codes = list(pickletools.genops(data))
    except ValueError:
        return data
    places = [
        (begin, end)
        for (opcode, _, begin), (_, _, end) in pairwise(codes)
        if begin is not None and opcode.name in _PUSHES
    ]
    begin, end = random.choice(places or [(0, 0)])
    return data[:begin] + code + data[end:] if end else data


def _long_line(data: bytes, random: Random) -> bytes:
    at = random.randint(0, len(data))
    return (
        data[:at]
        + random.choice((b"x", b" ", b"9", b"- ", b"1,", b"<", b"# ", b"\r")) * 70_000
        + data[at:]
    )


def _grown(data: bytes, random: Random) -> bytes:
    """The same again and again."""
    return data * min(random.choice((2, 2, 10, 100)), max(1, MOST // max(1, len(data))))


def _nothing(data: bytes, random: Random) -> bytes:
    return random.choice(
        (
            *(b"", b" ", b"\n" * 100, b"\xef\xbb\xbf", b"\0", b"{}", b"[]", b"<a/>", b"null"),
            *(b"0", b"---"),
        )
    )


def _zero_bytes(data: bytes, random: Random) -> bytes:
    at = random.randint(0, len(data))
    return data[:at] + b"\0" * random.choice((1, 100)) + data[at:]


def _encoded(data: bytes, random: Random) -> bytes:
    text = data.decode("utf-8", "replace")
    coding = random.choice(("utf-16", "utf-8-sig", "utf-32", "latin-1", "cp037"))
    return text.encode(coding, "replace")


def _line_ends(data: bytes, random: Random) -> bytes:
    return data.replace(
        b"\n", random.choice((b"\r\n", b"\r", b"\n\n", b"\r\r\n", b"\x0b", "\u2028".encode(), b" "))
    )


def _quotes(data: bytes, random: Random) -> bytes:
    return data.replace(
        *random.choice(((b'"', b"'"), (b"'", b'"'), (b":", b"="), (b",", b";"), (b".", b",")))
    )


def _spliced(data: bytes, donor: bytes, random: Random) -> bytes:
    """A beginning of one file and an end of another."""
    return data[: random.randint(0, len(data))] + donor[random.randint(0, len(donor)) :]


MUTATIONS: dict[str, Mutation] = {
    "number": _number,
    "every number": _every_number,
    "token": _token,
    "word": _word,
    "columns": _columns,
    "bits": _bits,
    "noise": _noise,
    "cut": _cut,
    "beheaded": _beheaded,
    "hole": _hole,
    "lines twice": _lines_twice,
    "lines away": _lines_away,
    "lines mixed": _lines_mixed,
    "lines joined": _lines_joined,
    "nested": _nested,
    "deep": _deep,
    "shared": _shared,
    "long line": _long_line,
    "grown": _grown,
    "nothing": _nothing,
    "zero bytes": _zero_bytes,
    "encoded": _encoded,
    "line ends": _line_ends,
    "quotes": _quotes,
}
_SPLICE = "splice"
_OFTEN = ("number",) * 8 + ("every number", "token", "columns") * 4 + ("word",) * 2
_CHOICES = (*MUTATIONS, *_OFTEN, _SPLICE)
"""Small damage is the likeliest: what is wrong from end to end is refused at once, and always for
the same reason."""
