"""Networks drawn at random: ranks and up to two switches, connected by links of 1 to 8 bytes/s."""

from random import Random

from topologies.link import Link
from topologies.topology import Topology
from topologies.topology_builder import TopologyBuilder

MOST_RANKS = 16
SEEDS = 200


def random_network(seed: int, *, both_ways_alike: bool = True) -> Topology:
    """The network of a seed, with 2 to 16 ranks, without latencies and gaps."""
    random = Random(seed)
    builder = TopologyBuilder(f"random network {seed}")
    ranks = [builder.device(f"gpu{rank}") for rank in range(random.randint(2, MOST_RANKS))]
    switches = [builder.device(f"switch{k}", "switch") for k in range(random.choice((0, 0, 1, 2)))]
    devices = random.sample(ranks + switches, len(ranks) + len(switches))
    wires = {
        frozenset((device, devices[random.randrange(k)])) for k, device in enumerate(devices) if k
    }
    for _ in range(random.randint(0, 2 * len(devices))):
        wires.add(frozenset(random.sample(devices, 2)))
    for first, second in sorted(sorted(wire) for wire in wires):
        there, back = (Link(float(random.randint(1, 8))) for _ in range(2))
        builder.link(first, second, there)
        builder.link(second, first, there if both_ways_alike else back)
    return builder.build(ranks)
