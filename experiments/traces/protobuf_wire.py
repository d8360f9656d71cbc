"""Protobuf's wire format: messages that follow each other with their lengths, and their fields."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from topologies.errors import InputError

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""The wire types."""
_WIDTHS = {FIXED64: 8, FIXED32: 4}
Value = int | bytes
"""A field on the wire: a whole number, or bytes."""


def messages(data: bytes, name: str) -> Iterator[bytes]:
    """The messages of the file `name`, each after its length. Raises InputError if one is cut
    off."""
    place = 0
    while place < len(data):
        size, begin = varint(data, place, name)
        place = begin + size
        if place > len(data):
            raise InputError(
                f"{name} is cut off: the message at byte {begin} has {size} bytes, and "
                f"{len(data) - begin} are left"
            )
        yield data[begin:place]


def fields(message: bytes, name: str) -> Iterator[tuple[int, Value]]:
    """The number and the value of each field of a message. Raises InputError for what is no
    message."""
    place = 0
    while place < len(message):
        # Nearly all keys and lengths take a byte, for which a call would take longer than the rest.
        key, place = message[place], place + 1
        if key >= 0x80:
            key, place = varint(message, place - 1, name)
        number, kind = key >> 3, key & 7
        if kind == VARINT:
            value, place = varint(message, place, name)
            yield number, value
            continue
        if kind == BYTES and place < len(message) and message[place] < 0x80:
            size, place = message[place], place + 1
        elif kind == BYTES:
            size, place = varint(message, place, name)
        elif kind in _WIDTHS:
            size = _WIDTHS[kind]
        else:
            raise InputError(f"{name} is no protobuf file: a field has the wire type {kind}")
        if place + size > len(message) or not number:
            raise InputError(f"{name} is damaged: field {number} of a message is cut off")
        yield number, message[place : place + size]
        place += size


def varint(data: bytes, place: int, name: str) -> tuple[int, int]:
    """The whole number at a place, and the place after it. Raises InputError if it is cut off or
    has more than 64 bits."""
    if place < len(data) and data[place] < 0x80:
        # Nearly all numbers take a byte.
        return data[place], place + 1
    value, shift = 0, 0
    for end in range(place, min(place + 10, len(data))):
        value |= (data[end] & 0x7F) << shift
        if data[end] < 0x80:
            return value & 2**64 - 1, end + 1
        shift += 7
    raise InputError(f"{name} is damaged or cut off: no whole number ends after byte {place}")


def whole_numbers(value: Value, name: str) -> list[int]:
    """The numbers of a repeated field: one, or several packed as bytes."""
    if isinstance(value, int):
        return [value]
    numbers, place = [], 0
    while place < len(value):
        number, place = varint(value, place, name)
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
