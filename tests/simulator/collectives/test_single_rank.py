"""A rank alone sends nothing, unless to a server or a switch."""

from simulator.collectives import algorithms


def test_a_rank_alone_sends_nothing() -> None:
    sending = []
    for name, algorithm in algorithms().items():
        schedule = algorithm.build(1, 64.0)
        if schedule.ranks == 1 and schedule.remote.any():
            sending.append(name)
    assert sending == []
