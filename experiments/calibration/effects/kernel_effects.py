"""Effects of the kernels that run a collective on GPUs."""

from dataclasses import replace

from experiments.calibration.effects.effect import LIKELY, Data, Effect, Parameter, Values
from simulator.effects.software_costs import DIRECT
from simulator.profile import Profile

MOVED = 2.0
"""How often memory moves a byte of the part that a rank keeps: a read and a write."""
USUAL_MEMORY = 3e12
"""β of a GPU's memory in bytes/s, if nobody specifies it."""
OWN = Parameter(
    "1/β of own copies", MOVED / USUAL_MEMORY, "s/B", LIKELY, specified=True, reached=1 / MOVED
)
PIECE = Parameter("a piece", 2e-6, "s", LIKELY)


def own_copies(data: Data) -> Effect:
    """A kernel copies the part V/p that a rank keeps from its input to its output, through memory.
    Jobs on one node show it: they have few ranks."""
    if not _on_one_node(data):
        return Effect()

    def write(profile: Profile, values: Values) -> Profile:
        return replace(profile, kernels=profile.kernels._replace(own=values[OWN.name]))

    return Effect((OWN,), write)


def pieces(data: Data) -> Effect:
    """A collective has few pieces at middle sizes, so links are idle while the first piece is on
    its way. More pieces would fill them, but each costs a time. Jobs on one node show it."""
    if not _on_one_node(data):
        return Effect()

    def write(profile: Profile, values: Values) -> Profile:
        return replace(profile, kernels=profile.kernels._replace(piece=values[PIECE.name]))

    return Effect((PIECE,), write)


def peer_messages(data: Data, *, node: float, network: float) -> Effect:
    """A time of each message of an all-to-all: a rank starts one for each peer. `node` and
    `network`, in seconds, are where the fit starts. All-to-alls show the two where they have peers
    in the node and on other nodes."""
    direct = [curve for curve in data.curves if {*DIRECT} & {*curve.algorithms}]
    inside = any(curve.per_node > 1 for curve in direct)
    between = any(curve.nodes > 1 for curve in direct)
    parameters = {
        "message": (Parameter("node message to a peer", node, "s", LIKELY), inside),
        "message_between": (Parameter("network message to a peer", network, "s", LIKELY), between),
    }

    def write(profile: Profile, values: Values) -> Profile:
        costs = {
            field: values[one.name] if shown else one.start
            for field, (one, shown) in parameters.items()
        }
        return replace(profile, kernels=profile.kernels._replace(**costs))

    return Effect(tuple(one for one, shown in parameters.values() if shown), write)


def _on_one_node(data: Data) -> bool:
    return any(curve.nodes == 1 for curve in data.curves)
