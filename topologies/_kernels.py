"""Loops over the links of a topology: plain Python that Numba compiles when there is much to do."""

from heapq import heappop, heappush

import numpy as np

_FAR = np.int64(2**62)


def shortest(
    into_indptr, into_device, out_indptr, out_device, out_link, ticks, targets, groups, sources,
    node, salts,
):  # fmt: skip
    """The links from each source to its target: fewest ticks, then fewest hops, then as the salt
    says.

    Group g asks for the routes to device `targets[g]` from `sources[groups[g]:groups[g + 1]]`.
    `into` lists who leads into a device, `out` where a device leads to with which link, both in CSR
    form and in device order; `ticks` is the latency of each entry of `out`, and of `into` at the
    place given by `into_device[:, 1]`. Of n equally short ways the one numbered salt % n is taken,
    and the salt is divided by n. A pair has three salts: on devices of a node, on the switches of
    the second half of the way between nodes, and on those of the first; to know them it is walked
    twice. Returns the routes in CSR form: one without links has not been found.
    """
    devices = len(into_indptr) - 1
    far, hops = np.full(devices, _FAR, np.int64), np.zeros(devices, np.int32)
    settled, wanted = np.zeros(devices, np.int8), np.zeros(devices, np.int8)
    indptr, links = np.zeros(len(sources) + 1, np.int64), [np.int32(0) for _ in range(0)]
    for group in range(len(targets)):
        missing = 0
        for k in range(groups[group], groups[group + 1]):
            if wanted[sources[k]] == 0:
                wanted[sources[k]] = 1
                missing += 1
        far[targets[group]], hops[targets[group]] = 0, 0
        heap = [(np.int64(0), np.int32(0), np.int32(targets[group]))]
        touched = [np.int32(targets[group])]
        while len(heap) > 0 and missing > 0:
            distance, length, device = heappop(heap)
            if settled[device]:
                continue
            settled[device] = 1
            if wanted[device]:
                missing -= 1
            for k in range(into_indptr[device], into_indptr[device + 1]):
                before, there = into_device[k, 0], distance + ticks[into_device[k, 1]]
                first, last = into_indptr[before], into_indptr[before + 1]
                if last - first == 1 and into_device[first, 0] == device and wanted[before] == 0:
                    continue  # nothing leads there but from here
                if there < far[before] or (there == far[before] and length + 1 < hops[before]):
                    if far[before] == _FAR:
                        touched.append(np.int32(before))
                    far[before], hops[before] = there, length + 1
                    heappush(heap, (np.int64(there), np.int32(length + 1), np.int32(before)))
        for k in range(groups[group], groups[group + 1]):
            wanted[sources[k]] = 0
            salt, switches = salts[k].copy(), 0
            for taken in range(2):
                device, met = sources[k], 0
                while settled[sources[k]] and device != targets[group]:
                    which = 0 if node[device] >= 0 else 1 if 2 * met >= switches - 1 else 2
                    met += node[device] < 0
                    count, chosen = 0, np.int64(-1)
                    for _ in range(2):
                        number = salt[which] % count if taken and count > 0 else np.int64(0)
                        count = 0
                        for edge in range(out_indptr[device], out_indptr[device + 1]):
                            after = out_device[edge]
                            there = settled[after] and hops[after] + 1 == hops[device]
                            if there and far[after] + ticks[edge] == far[device]:
                                if count == number:
                                    chosen = edge
                                count += 1
                    device = out_device[chosen]
                    if taken:
                        salt[which] //= count
                        links.append(np.int32(out_link[chosen]))
                switches = met
            indptr[k + 1] = len(links)
        for device in touched:
            far[device], settled[device] = _FAR, 0
    result = np.empty(len(links), np.int32)
    for k in range(len(links)):
        result[k] = links[k]
    return indptr, result
