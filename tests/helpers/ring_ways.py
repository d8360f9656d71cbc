"""Ways round a ring of devices."""


def apart(pairs: set[tuple[int, int]], devices: int) -> bool:
    """Whether the shortest ways of all pairs round a ring are equally long and share no link.

    >>> apart({(0, 2), (3, 1)}, 5), apart({(0, 2), (1, 3)}, 5), apart({(0, 1), (0, 2)}, 5)
    (True, False, False)
    """
    links, lengths = list[tuple[int, int]](), set[int]()
    for a, b in pairs:
        ahead = (b - a) % devices
        way = 1 if 2 * ahead <= devices else -1
        length = ahead if way == 1 else devices - ahead
        lengths.add(length)
        links += [((a + way * step) % devices, way) for step in range(length)]
    return len(lengths) <= 1 and len(set(links)) == len(links)
