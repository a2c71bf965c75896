"""Connected components of an undirected graph, by disjoint sets with path halving.

Source: Tarjan 1975, Efficiency of a good but not linear set union algorithm.
"""

from __future__ import annotations

import numpy as np

from catgrad.types import Array


def connected_components(left: Array, right: Array, count: int) -> tuple[Array, int]:
    """Return the component of each of `count` vertices with edges (left[i], right[i]), and their number.

    Components are numbered in the order of their smallest vertices. Small graphs, such as those of most
    terms, take less time than the sparse matrix that SciPy needs.
    """
    parent = list(range(count))

    def root(vertex: int) -> int:
        while parent[vertex] != vertex:
            parent[vertex] = vertex = parent[parent[vertex]]
        return vertex

    for a, b in zip(left.tolist(), right.tolist(), strict=True):
        a, b = root(a), root(b)
        parent[max(a, b)] = min(a, b)  # so that no parent is larger than its vertex
    component: list[int] = []
    number = 0
    for vertex, above in enumerate(parent):
        component.append(number if above == vertex else component[above])
        number += above == vertex
    return np.array(component, dtype=left.dtype), number
