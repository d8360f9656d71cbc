"""Effects besides links: kernels that run a collective on GPUs, and memory of the host."""

from collections.abc import Collection, Mapping
from dataclasses import replace

from experiments.calibration.effects.effect import LIKELY, LOOSE, Data, Effect, Parameter, Values
from simulator.effects.software_costs import CONNECTED_RANKS, DIRECT, HostMemory
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
        return replace(profile, kernels=profile.kernels._replace(own_copies=values[OWN.name]))

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


NO_SCRATCH: Mapping[str, float] = {}
RATES = {
    "reduction": Parameter("γ", 1 / 8e9, "s/B", LOOSE),
    "reduction_beyond": Parameter("γ beyond cache", 1 / 5e9, "s/B", LOOSE),
    "copy": Parameter("copy", 1 / 15e9, "s/B", LIKELY),
    "copy_beyond": Parameter("copy beyond cache", 1 / 8e9, "s/B", LIKELY),
    "fresh": Parameter("fresh memory", 1 / 4e9, "s/B", LIKELY),
}
"""The rates that are always fitted, by the field of Memory."""


def host_memory(
    data: Data,
    *,
    scratch: Mapping[str, float] = NO_SCRATCH,
    mapped: float = 2.0**25,
    trimmed: float = 2.0**19,
) -> Effect:
    """Ranks merge and copy on the host, and algorithms write memory that the allocator maps anew or
    gives back.

    `scratch` is the memory that an algorithm allocates in each call, in units of V. `mapped` and
    `trimmed` are the sizes in bytes from which the allocator maps a block, and gives some back.
    """
    rates = dict(RATES)
    if any(scratch.get(name, 0.0) > 1 for name in data.jobs.names):
        rates["back"] = Parameter("memory given back", 1 / 4e9, "s/B", LIKELY)

    def write(profile: Profile, values: Values) -> Profile:
        fitted = {name: values[parameter.name] for name, parameter in rates.items()}
        memory = HostMemory(mapped=mapped, trimmed=trimmed)._replace(**fitted)
        return replace(profile, memory=memory, scratch=dict(scratch))

    return Effect(tuple(rates.values()), write)


AGAIN = Parameter("memory registered again", 1 / 40e9, "s/B", LIKELY)


def registered_memory(data: Data, *, joined: Mapping[str, float]) -> Effect:
    """Blocks of fresh memory that share pages are registered together, anew. Only curves that were
    forced to be of such algorithms show it. `joined` is the memory that an algorithm has registered
    again, in units of V and ranks."""
    shown = any(joined.keys() >= set(curve.algorithms) for curve in data.curves)

    def write(profile: Profile, values: Values) -> Profile:
        memory = profile.memory
        if shown:
            memory = memory._replace(registered=values[AGAIN.name])
        return replace(profile, memory=memory, joined=dict(joined))

    return Effect((AGAIN,) if shown else (), write)


def pinned_memory(data: Data, *, algorithms: Collection[str]) -> Effect:
    """A constant time for each time that fresh memory is pinned, and one for scratch in jobs of
    many ranks. Only curves that were forced to be of algorithms that allocate memory show them."""
    forced = [curve for curve in data.curves if {*curve.algorithms} <= {*algorithms}]
    names = {"pinned": "memory pinned"} if forced else {}
    if any(curve.ranks > CONNECTED_RANKS for curve in forced):
        names["pinned_on_many"] = "memory pinned on many ranks"

    def write(profile: Profile, values: Values) -> Profile:
        times = {field: values[name] for field, name in names.items()}
        return replace(profile, memory=profile.memory._replace(**times))

    return Effect(tuple(Parameter(name, 1e-4, "s", LIKELY) for name in names.values()), write)
