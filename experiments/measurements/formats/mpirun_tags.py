"""Separates what ranks wrote, by the tags that mpirun puts before each line or piece of a line."""

import re
from collections.abc import Iterator

_STREAM = r"[0-9]{1,9},[0-9]{1,9}\]<std(?:out|err|diag)>:"
_TAG = re.compile(rf"\[{_STREAM}|\[[^\s\[\]@]{{1,255}}@{_STREAM} ?")
_UNTAGGED_PIECE = re.compile(
    r"[ \t]*[0-9]{1,18}[ \t]{1,20}[0-9]{1,18}[ \t]{1,20}[A-Za-z]\w{0,15}[ \t]"
)


def streams(line: str) -> Iterator[str]:
    """What each rank wrote in a line, with its first tag: a line of one piece is yielded as it is.

    >>> list(streams("[1,0]<stdout>:  8  -1[1,0]<stdout>:  85.70[1,3]<stderr>:hello"))
    ['[1,0]<stdout>:  8  -1  85.70', '[1,3]<stderr>:hello']
    """
    tags = list(_TAG.finditer(line)) if "]<std" in line else []
    if not tags or (len(tags) == 1 and not _UNTAGGED_PIECE.match(line)):
        yield line
        return
    untagged = line[: tags[0].start()]
    pieces = {
        tags[0][0]: untagged if _UNTAGGED_PIECE.match(untagged) else f"{untagged}{tags[0][0]}"
    }
    for tag, end in zip(tags, [*(tag.start() for tag in tags[1:]), len(line)], strict=True):
        pieces[tag[0]] = pieces.get(tag[0], tag[0]) + line[tag.end() : end]
    yield from pieces.values()
