"""Media in numbers small enough to follow with a finger: who holds them, for how long, and who
waits."""

from simulator.engines import Engine, simulate
from simulator.schedules.schedule_builder import ScheduleBuilder
from topologies import shapes
from topologies.link import Link
from topologies.topology import Topology
from topologies.topology_builder import TopologyBuilder


def test_a_bus_carries_one_message_at_a_time(engine: Engine) -> None:
    schedule = ScheduleBuilder(3, 1.0)
    schedule.signal([0, 1, 2], [1, 2, 0], nbytes=4.0)
    timeline = simulate(schedule.build(), shapes.bus(3, bandwidth=2.0, latency=0.5), engine)
    assert timeline.start.tolist() == [0, 2, 4]
    assert timeline.finish.tolist() == [2.5, 4.5, 6.5], (
        "the bus is free again before the latency has passed"
    )


def half_duplex() -> Topology:
    builder = TopologyBuilder("half duplex")
    left, right = builder.device("one"), builder.device("other")
    wire = builder.medium("wire", 2.0)
    builder.link(left, right, Link(2.0, 1.0), media=(wire,))
    builder.link(right, left, Link(2.0, 1.0), media=(wire,))
    return builder.build([left, right])


def test_a_half_duplex_wire_carries_one_direction_at_a_time(engine: Engine) -> None:
    schedule = ScheduleBuilder(2, 1.0)
    schedule.signal([0, 1], [1, 0], nbytes=4.0)
    both_ways = schedule.build()
    assert simulate(both_ways, half_duplex(), engine).finish.tolist() == [3, 5]
    assert simulate(
        both_ways, shapes.line(2, bandwidth=2.0, latency=1.0), engine
    ).finish.tolist() == [3, 3]


def unequal_media() -> Topology:
    """a -> b crosses its own wire (8 B/s), a slow bus (1 B/s and 1 s a message) and a middling one
    (2 B/s)."""
    builder = TopologyBuilder("unequal media")
    for name in ("a", "b", "c"):
        builder.device(name)
    slow, middling = builder.medium("slow", 1.0, gap=1.0), builder.medium("middling", 2.0)
    builder.link("a", "b", Link(8.0, 3.0), media=(slow, middling))
    builder.link("b", "c", Link(8.0, 3.0), media=(middling,))
    builder.link("c", "a", Link(8.0, 3.0), media=(slow,))
    return builder.build(["a", "b", "c"])


def test_a_link_over_several_media_goes_at_the_pace_of_the_slowest_and_holds_each_for_its_own_time(
    engine: Engine,
) -> None:
    # a -> b holds its wire for 1 s, the middling bus for 4 s and the slow one for 1 + 8 s. Then b
    # -> c finds the middling one free at 4, c -> a the slow one at 9.
    schedule = ScheduleBuilder(3, 1.0)
    schedule.signal([0, 1, 2], [1, 2, 0], nbytes=8.0)
    timeline = simulate(schedule.build(), unequal_media(), engine)
    assert timeline.start.tolist() == [0, 4, 9]
    assert timeline.finish.tolist() == [9 + 3, 4 + 4 + 3, 9 + 9 + 3]
    assert timeline.node_cause.tolist() == [-1, 0, 0]


def test_a_link_over_several_media_waits_until_all_are_free(engine: Engine) -> None:
    # c -> a holds the slow bus until 9, b -> c the middling one until 4: a -> b starts at 9,
    # because of c -> a. The next b -> c waits for the middling bus until 9 + 4, although it stood
    # idle from 4 to 9.
    schedule = ScheduleBuilder(3, 1.0)
    schedule.signal([2, 1, 0, 1], [0, 2, 1, 2], nbytes=8.0)
    timeline = simulate(schedule.build(), unequal_media(), engine)
    assert timeline.start.tolist() == [0, 0, 9, 13]
    assert timeline.node_cause.tolist() == [-1, -1, 0, 2]


def test_one_port_a_rank_sends_one_message_at_a_time_and_receives_another_meanwhile(
    engine: Engine,
) -> None:
    schedule = ScheduleBuilder(3, 1.0)
    schedule.signal([0, 0, 1], [1, 2, 0], nbytes=4.0)
    everyone = schedule.build()
    one_port, peer_ports = (
        shapes.full_mesh(3, bandwidth=2.0, ports=ports) for ports in ("one", "peer")
    )
    assert simulate(everyone, one_port, engine).finish.tolist() == [2, 4, 2]
    assert simulate(everyone, peer_ports, engine).finish.tolist() == [2, 2, 2]
