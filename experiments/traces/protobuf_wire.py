"""Protobuf's wire format: messages that follow each other with their lengths, and their fields.

Errors leave out the name of the file: the caller puts it before their words.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from topologies.errors import InputError

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
