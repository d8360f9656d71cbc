"""Messages over torch.distributed: by tag, by tag through the host, or in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import torch.distributed as dist

from experiments.measure.interpreter import Arrival, Transport
from experiments.measure.program import Message

Begin = Callable[[], Arrival]
"""Begins a message that is prepared."""
POSTS = {True: dist.isend, False: dist.irecv}
"""What begins a message, by whether this end sends."""


def transport_for(backend: str, device: torch.device) -> Transport:
    """The transport between tensors on `device`. gloo cannot read GPU memory; NCCL has no tags."""
    if backend == "nccl":
        return in_order()
    return by_tag(direct if device.type == "cpu" else staged)


def by_tag(prepared: Callable[[Message, torch.Tensor], Begin]) -> Transport:
    """Messages with tags, posted one by one."""

    def prepare(parts: Sequence[tuple[Message, Any]]) -> Callable[[], Sequence[Arrival]]:
        begins = [prepared(message, elements) for message, elements in parts]
        return lambda: [begin() for begin in begins]

    return Transport(prepare, torch.Tensor.copy_, torch.Tensor.add_)


def direct(message: Message, elements: torch.Tensor) -> Begin:
    """A message from its elements, or into them."""
    post = partial(POSTS[message.sends], elements, message.peer, tag=message.number)
    return lambda: post().wait


def staged(message: Message, elements: torch.Tensor) -> Begin:
    """A message through a buffer in the memory of the host."""
    host = torch.empty(elements.shape, dtype=elements.dtype, pin_memory=elements.is_cuda)
    begin = direct(message, host)

    def send() -> Arrival:
        host.copy_(elements)
        return begin()

    def receive() -> Arrival:
        arrival = begin()

        def unpack() -> None:
            arrival()
            elements.copy_(host)

        return unpack

    return send if message.sends else receive


def in_order() -> Transport:
    """Messages without tags: those between two ranks keep their order, and a batch goes at once."""

    def prepare(parts: Sequence[tuple[Message, Any]]) -> Callable[[], Sequence[Arrival]]:
        batch = [
            dist.P2POp(POSTS[message.sends], elements, message.peer) for message, elements in parts
        ]

        def begin() -> Sequence[Arrival]:
            works = dist.batch_isend_irecv(batch)

            def arrive() -> None:
                """A rank waits for the whole batch at once."""
                while works:
                    works.pop().wait()

            return [arrive] * len(batch)

        return begin

    return Transport(prepare, torch.Tensor.copy_, torch.Tensor.add_, tagged=False)
