"""Messages over torch.distributed: by tag, by tag through the host, or in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

if TYPE_CHECKING:
    from experiments.measure.interpreter import Handle, Parcel

_POSTS = {True: dist.isend, False: dist.irecv}


def transport_for(backend: str, device: torch.device) -> Tagged:
    """The transport between tensors on `device`. gloo cannot read GPU memory; NCCL has no tags."""
    if backend == "nccl":
        return Ordered()
    return Tagged() if device.type == "cpu" else Staged()


class Tagged:
    """Messages with tags: the number of a message is its tag."""

    tagged = True
    copy = staticmethod(torch.Tensor.copy_)
    add = staticmethod(torch.Tensor.add_)

    def prepare(self, parcels: Sequence[Parcel]) -> Callable[[], Sequence[Handle]]:
        """A call that posts the messages one by one."""
        posts = [self._post(parcel) for parcel in parcels]
        return lambda: [post() for post in posts]

    def _post(self, parcel: Parcel) -> Callable[[], Handle]:
        message, elements = parcel
        return partial(_POSTS[message.sends], elements, message.peer, tag=message.number)


class Staged(Tagged):
    """Messages with tags, through buffers in the memory of the host."""

    def _post(self, parcel: Parcel) -> Callable[[], Handle]:
        message, elements = parcel
        host = torch.empty(elements.shape, dtype=elements.dtype, pin_memory=elements.is_cuda)
        post = super()._post(parcel._replace(elements=host))

        def send() -> Handle:
            host.copy_(elements)
            return post()

        def receive() -> Handle:
            return _Unpacked(post(), elements, host)

        return send if message.sends else receive


class Ordered(Tagged):
    """Messages without tags: those between two ranks keep their order, and a batch goes at once."""

    tagged = False

    def prepare(self, parcels: Sequence[Parcel]) -> Callable[[], Sequence[Handle]]:
        """A call that posts the messages as one batch."""
        batch = [
            dist.P2POp(_POSTS[message.sends], elements, message.peer)
            for message, elements in parcels
        ]
        return lambda: [_All(dist.batch_isend_irecv(batch))] * len(batch)


class _Unpacked:
    """A message for the GPU that the host receives."""

    def __init__(self, work: Any, elements: torch.Tensor, host: torch.Tensor) -> None:
        self._work, self._elements, self._host = work, elements, host

    def wait(self) -> None:
        self._work.wait()
        self._elements.copy_(self._host)


class _All:
    """A batch of messages: a rank waits for all of them at once."""

    def __init__(self, works: Sequence[Any]) -> None:
        self._works = list(works)

    def wait(self) -> None:
        while self._works:
            self._works.pop().wait()
