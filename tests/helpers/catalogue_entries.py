"""What the catalogue has: the options of its shapes and machines, and the devices of its
machines."""

LINK_KEYS = ["bandwidth", "latency", "gap"]
SHAPE_KEYS = {
    **{
        name: [*LINK_KEYS]
        for name in ("ring", "star", "full_mesh_one_port", "bus", "line", "hypercube")
    },
    "full_mesh": [*LINK_KEYS, "ports"],
    "tree": [*LINK_KEYS, "branching"],
    "grid": [*LINK_KEYS, "dims", "periodic"],
    "torus": [*LINK_KEYS, "dims"],
    "nodes": [*LINK_KEYS, "per_node", "multicast"],
    "leaf_spine": [*LINK_KEYS, "ports_per_leaf", "spines", "oversubscription"],
    "fat_tree": [*LINK_KEYS, "k"],
    "dragonfly": [*LINK_KEYS, "hosts", "routers", "global_links", "cables"],
}
NETWORK_KEYS = [
    *("nodes", "network", "nics", "p2p", "port", "oversubscription", "spines", "nodes_per_leaf"),
    *("sharp", "paths", "used"),
]

DEVICES = {
    "pcie_box": {"cpu": 2, "pcie switch": 2, "gpu": 8, "nic": 2},
    "dgx1": {"cpu": 2, "pcie switch": 4, "gpu": 8, "nic": 4},
    "dgx_a100": {"cpu": 2, "pcie switch": 4, "gpu": 8, "nic": 8, "nvswitch": 1},
    "hgx_h100": {"cpu": 2, "pcie switch": 4, "gpu": 8, "nic": 8, "nvswitch": 1},
    "hgx_h800": {"cpu": 2, "pcie switch": 4, "gpu": 8, "nic": 8, "nvswitch": 1},
    "hgx_h200": {"cpu": 2, "pcie switch": 4, "gpu": 8, "nic": 8, "nvswitch": 1},
    "b200": {"cpu": 2, "pcie switch": 4, "gpu": 8, "nic": 8, "nvswitch": 1},
    "hgx_b300": {"cpu": 2, "pcie switch": 4, "gpu": 8, "nic": 8, "nvswitch": 1},
    "mi300x": {"cpu": 2, "pcie switch": 8, "gpu": 8, "nic": 8},
    "nvl72": {"cpu": 36, "gpu": 72, "nic": 72, "nvswitch": 1},
    "gb300": {"cpu": 36, "gpu": 72, "nic": 72, "nvswitch": 1},
    "mi325x": {"cpu": 2, "pcie switch": 8, "gpu": 8, "nic": 8},
    "mi355x": {"cpu": 2, "pcie switch": 8, "gpu": 8, "nic": 8},
    "leonardo": {"cpu": 1, "gpu": 4, "nic": 4},
    "mn5_acc": {"cpu": 2, "pcie switch": 4, "gpu": 4, "nic": 4},
    "alps": {"cpu": 4, "gpu": 4, "nic": 4},
}
