"""What operations compute, on data."""

TRANSFER = 1


def execute(order, kind, rank, peer, source, target, count, reduces, data):
    """Run the transfers on `data[rank, slot]`, in `order`."""
    for k in range(len(order)):
        i = order[k]
        if kind[i] == TRANSFER and source[i] >= 0 and target[i] >= 0:
            for j in range(count[i]):
                value = data[rank[i], source[i] + j]
                if reduces[i]:
                    data[peer[i], target[i] + j] += value
                else:
                    data[peer[i], target[i] + j] = value
