"""Small builders, figures to draw from, and topologies compared column by column."""

from hypothesis import strategies as st

from topologies.link import Link
from topologies.topology import Topology
from topologies.topology_builder import TopologyBuilder

NAN, INF = float("nan"), float("inf")
COLUMNS = (
    *("node", "reduction", "copy", "in_network", "placement", "source", "target", "latency"),
    *("assumed", "link_indptr", "link_media", "medium_bandwidth", "medium_gap"),
)
SECONDS = st.sampled_from((0.0, 1e-6, 0.1, 3.0))
BANDWIDTHS = st.sampled_from((1.0, 1e9, 0.3, INF))


def same(topology: Topology, reference: Topology) -> None:
    """Equal column by column, to the bit and the type."""
    assert topology.name == reference.name
    assert topology.device_names == reference.device_names
    assert topology.device_kinds == reference.device_kinds
    assert topology.link_kinds == reference.link_kinds
    assert topology.medium_names == reference.medium_names
    assert (topology.paths, topology.notes) == (reference.paths, reference.notes)
    for column in COLUMNS:
        left, right = getattr(topology, column), getattr(reference, column)
        assert left.dtype == right.dtype, column
        assert left.tolist() == right.tolist(), column


def with_devices(*names: str) -> TopologyBuilder:
    builder = TopologyBuilder("some")
    for name in names:
        builder.device(name)
    return builder


def pair(name: str = "pair") -> Topology:
    """A GPU and a switch, joined."""
    builder = TopologyBuilder(name)
    builder.device("gpu")
    builder.device("switch", "switch", in_network=True)
    builder.connect("gpu", "switch", Link(1e9, 1e-6, 2e-6), kind="nvlink", assumed=True)
    return builder.build(["gpu"])
