"""Nodes of Chakra's execution traces in protobuf's wire format, read and written."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from topologies.errors import InputError
from topologies.readers.contents import unpacked

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""The wire types."""
_WIDTHS = {FIXED64: 8, FIXED32: 4}
Value = int | bytes
"""A field on the wire: a whole number, or bytes."""


def messages(data: bytes) -> Iterator[bytes]:
    """The messages of a file, each after its length. Raises InputError if one is cut off."""
    place = 0
    while place < len(data):
        size, begin = varint(data, place)
        place = begin + size
        if place > len(data):
            raise InputError(
                f"is cut off: the message at byte {begin} has {size} bytes, and "
                f"{len(data) - begin} are left"
            )
        yield data[begin:place]


def fields(message: bytes) -> Iterator[tuple[int, Value]]:
    """The number and the value of each field of a message. Raises InputError for what is no
    message."""
    place, end = 0, len(message)
    while place < end:
        # Nearly all numbers take a byte, for which a call would take longer than the rest.
        key, place = message[place], place + 1
        if key >= 0x80:
            key, place = varint(message, place - 1)
        number, kind = key >> 3, key & 7
        if kind in _WIDTHS:
            size = _WIDTHS[kind]
        elif kind not in (VARINT, BYTES):
            raise InputError(f"is no protobuf file: a field has the wire type {kind}")
        elif place < end and message[place] < 0x80:
            size, place = message[place], place + 1
        else:
            size, place = varint(message, place)
        if kind == VARINT:
            yield number, size
            continue
        if place + size > end or not number:
            raise InputError(f"is damaged: field {number} of a message is cut off")
        yield number, message[place : place + size]
        place += size


def varint(data: bytes, place: int) -> tuple[int, int]:
    """The whole number at a place, and the place after it. Raises InputError if it is cut off or
    has more than 64 bits."""
    value, shift, end = 0, 0, place
    for byte in data[place : place + 10]:
        value |= (byte & 0x7F) << shift
        shift, end = shift + 7, end + 1
        if byte < 0x80:
            return value & 2**64 - 1, end
    raise InputError(f"is damaged or cut off: no whole number ends after byte {place}")


def whole_numbers(value: Value) -> list[int]:
    """The numbers of a repeated field: one, or several packed as bytes."""
    if isinstance(value, int):
        return [value]
    numbers, place = [], 0
    while place < len(value):
        number, place = varint(value, place)
        numbers.append(number)
    return numbers


def signed(value: int) -> int:
    """An int64 from its 64 bits."""
    return value - 2**64 if value >= 2**63 else value


def zigzag(value: int) -> int:
    """A sint64 from its zigzag form.

    >>> [zigzag(value) for value in range(4)]
    [0, -1, 1, -2]
    """
    return (value >> 1) ^ -(value & 1)


def write_varint(value: int) -> bytes:
    """A whole number of up to 64 bits.

    >>> write_varint(300).hex(), write_varint(-1).hex()
    ('ac02', 'ffffffffffffffffff01')
    """
    value &= 2**64 - 1
    written = bytearray()
    while value >= 0x80:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


def write_field(number: int, value: int | float | str | bytes) -> bytes:
    """A field: a whole number as varint, a float as double, else bytes."""
    if isinstance(value, int):
        return write_varint(number << 3 | VARINT) + write_varint(value)
    if isinstance(value, float):
        return write_varint(number << 3 | FIXED64) + struct.pack("<d", value)
    content = value.encode() if isinstance(value, str) else value
    return write_varint(number << 3 | BYTES) + write_varint(len(content)) + content


def write_messages(contents: Iterable[bytes]) -> bytes:
    """Messages, each after its length."""
    return b"".join(write_varint(len(content)) + content for content in contents)


LIMIT = 256 * 2**20
"""A file has at most this many bytes, unpacked."""
METADATA, LOAD, STORE, COMPUTE, SEND, RECEIVE, COLLECTIVE = 1, 2, 3, 4, 5, 6, 7
"""The types of nodes."""
CALLED = "rf_id"
"""An attribute of nodes that PyTorch's converter made."""
Attribute = int | float | str
_DOUBLE, _FLOAT, _BOOL, _STRING = 3, 5, 27, 29
_PLAIN, _ZIGZAG, _FIXED = (7, 9, 11, 13), (15, 17), {19: "<I", 21: "<Q", 23: "<i", 25: "<q"}
"""The fields of an attribute's value, by how they are written. Lists are skipped."""


class ChakraNode(NamedTuple):
    """A node of a trace."""

    id: int
    name: str
    type: int
    waits: tuple[int, ...] = ()
    """The ids of the nodes that it waits for."""
    microseconds: int = 0
    attributes: Mapping[str, Attribute] = {}
    values: str = ""
    """The values of its inputs, as text."""


def read(path: Path) -> list[ChakraNode]:
    """The nodes of a file, which may be gzipped.

    A node waits for its data and control dependencies. In traces that PyTorch's converter made,
    control dependencies lead to the caller, which ends later, so only those of data count.
    Raises InputError for a file that is empty, damaged or too large.
    """
    name = path.name[:80]
    data = unpacked(path, name, LIMIT, "trace fewer steps")
    if not data:
        raise InputError(f"{name} is empty: expected a Chakra trace")
    try:
        # The first message is about the file.
        pairs = [*map(_node, islice(messages(data), 1, None))]
    except InputError as error:
        raise InputError(f"{name} {error}") from None
    if not pairs:
        raise InputError(f"{name} has no nodes")
    if any(CALLED in node.attributes for node, _ in pairs):
        return [node for node, _ in pairs]
    return [
        node._replace(waits=tuple(dict.fromkeys((*node.waits, *controls)))) if controls else node
        for node, controls in pairs
    ]


def write(nodes: Iterable[ChakraNode]) -> bytes:
    """A file of these nodes."""
    return write_messages([write_field(1, "0.0.4"), *map(_written, nodes)])


def _node(message: bytes) -> tuple[ChakraNode, list[int]]:
    """A node that waits for its data, and its further dependencies."""
    whole, texts = {1: 0, 3: 0, 7: 0}, {2: "", 8: ""}
    attributes: dict[str, Attribute] = {}
    waits: list[int] = []
    controls: list[int] = []
    for number, value in fields(message):
        if isinstance(value, int):
            if number in whole:
                whole[number] = value
        elif number == 10:
            attributes |= _attribute(value)
        elif number == 2:
            texts[2] = value.decode(errors="replace")
        elif number == 8:
            texts[8] = _text(value, 1)
        if number == 5:
            waits += whole_numbers(value)
        elif number == 4:
            controls += whole_numbers(value)
    if whole[3] not in range(COLLECTIVE + 1):
        raise InputError(f"is damaged: node {whole[1]} has the type {whole[3]}: types are 0 to 7")
    data = tuple(dict.fromkeys(waits))
    return ChakraNode(whole[1], texts[2], whole[3], data, whole[7], attributes, texts[8]), controls


def _text(message: bytes, wanted: int) -> str:
    for number, value in fields(message):
        if number == wanted and isinstance(value, bytes):
            return value.decode(errors="replace")
    return ""


@lru_cache(maxsize=4096)
def _attribute(message: bytes) -> dict[str, Attribute]:
    """The value of an attribute by its name; nothing for a list. Nodes and ranks repeat each
    other's attributes."""
    key, values = "", dict[str, Attribute]()
    for number, value in fields(message):
        if number == 1 and isinstance(value, bytes):
            key = value.decode(errors="replace")
        elif (plain := _plain(number, value)) is not None:
            values[key] = plain
    return values


def _plain(number: int, value: Value) -> Attribute | None:
    if isinstance(value, int):
        if number == _BOOL:
            return int(bool(value))
        if number in _ZIGZAG:
            return zigzag(value)
        return signed(value) if number in _PLAIN else None
    if number == _STRING:
        return value.decode(errors="replace")
    if number == _DOUBLE and len(value) == 8:
        return float(struct.unpack("<d", value)[0])
    if number == _FLOAT and len(value) == 4:
        return float(struct.unpack("<f", value)[0])
    if number in _FIXED and len(value) == struct.calcsize(_FIXED[number]):
        return int(struct.unpack(_FIXED[number], value)[0])
    return None


def _written(node: ChakraNode) -> bytes:
    waits = b"".join(map(write_varint, node.waits))
    parts = [write_field(1, node.id), write_field(2, node.name), write_field(3, node.type)]
    if waits:
        parts.append(write_field(5, waits))
    parts.append(write_field(7, node.microseconds))
    if node.values:
        parts.append(write_field(8, write_field(1, node.values)))
    parts += [
        write_field(10, write_field(1, key) + _written_value(key, value))
        for key, value in node.attributes.items()
    ]
    return b"".join(parts)


def _written_value(key: str, value: Attribute) -> bytes:
    if isinstance(value, str):
        return write_field(_STRING, value)
    if isinstance(value, float):
        return write_field(_DOUBLE, value)
    return write_field(_BOOL if key == "is_cpu_op" else _PLAIN[1], value)
