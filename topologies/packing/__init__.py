"""Spanning trees packed into a machine, so that together they use every link that limits a
collective.

After L. Zhao et al., "ForestColl: Throughput-Optimal Collective Communications on Heterogeneous
Network Fabrics", arXiv 2402.06787. The tightest cut tells how many bytes a second each root can
send to all others. Edges are split off at devices that are no rank. Trees are then packed into
what is left.
"""

from topologies.packing.forest import TREES, Forest, Pair, pack, pack_pair
from topologies.packing.spanning_trees import Branch

__all__ = ["TREES", "Branch", "Forest", "Pair", "pack", "pack_pair"]
