"""Who belongs together. Every statistic that knows clusters asks this file, so that they cannot drift apart.

A cluster is the unit of independence: items that share a prompt source or template, and all trials of an item.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evalkit.stats.arrays import FloatArray


@dataclass(frozen=True, slots=True)
class Clusters:
    """The cluster of each observation, as a number from 0 to count − 1."""

    codes: NDArray[np.intp]
    """Shape (n,). Which number a label gets has no meaning."""
    count: int

    def sums(self, values: FloatArray) -> FloatArray:
        """Sum of `values`, shape (n,), within each cluster: shape (count,)."""
        return np.bincount(self.codes, weights=values, minlength=self.count).astype(np.float64)


def clusters_of(labels: ArrayLike, n: int) -> Clusters:
    """Clusters from one label per observation.

    Args:
        labels: shape (n,), whole numbers, text, or any hashable objects. Equal labels are one cluster.
        n: number of observations that must be labelled.

    Raises:
        ValueError: not one label per observation, or a label that is None or NaN. A missing label is not a cluster of
            its own: taken as one, it would narrow the interval in silence.
    """
    array: NDArray[np.generic] = np.asarray(labels)
    if array.shape != (n,):
        raise ValueError(f"clusters: expected shape ({n},), found {array.shape}")
    if array.dtype.kind == "U" and not isinstance(labels, np.ndarray):
        array = np.asarray(labels, dtype=object)  # a list of text and NaN would become text, "nan" included
    if array.dtype.kind == "O":
        return _from_objects(array.tolist())
    if array.dtype.kind == "f" and np.any(array != array):
        raise ValueError("clusters: a label is NaN")
    distinct, codes = np.unique(array, return_inverse=True)
    return Clusters(codes, distinct.size)


def clusters_of_groups(groups: Clusters, clusters: Clusters) -> NDArray[np.intp]:
    """The cluster of each group, shape (groups.count,).

    Raises:
        ValueError: a group in two clusters.
    """
    if not nested(groups, clusters):
        raise ValueError("groups: a group lies in two clusters")
    return _last_of(groups, clusters)


def nested(groups: Clusters, clusters: Clusters) -> bool:
    """Whether every group lies in one cluster."""
    return np.array_equal(_last_of(groups, clusters)[groups.codes], clusters.codes)


def _last_of(groups: Clusters, clusters: Clusters) -> NDArray[np.intp]:
    of = np.zeros(groups.count, dtype=np.intp)
    of[groups.codes] = clusters.codes
    return of


def joined(first: Clusters, second: Clusters) -> Clusters:
    """The finest clusters in which those of both stay whole: observations that share either are together.

    Where prompts lie inside clusters these are the clusters; where every sample was said to be its own, the prompts.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    size = first.count + second.count
    edges = coo_array((np.ones(first.codes.size), (first.codes, first.count + second.codes)), shape=(size, size))
    part = connected_components(edges, directed=False)[1][first.codes]
    distinct, codes = np.unique(part, return_inverse=True)
    return Clusters(codes, distinct.size)


def _from_objects(labels: list[Hashable]) -> Clusters:
    code_of: dict[Hashable, int] = {}
    for label in labels:
        if label is None or label != label:
            raise ValueError(f"clusters: a label is {'None' if label is None else 'NaN'}")
        code_of.setdefault(label, len(code_of))
    codes = np.fromiter((code_of[label] for label in labels), dtype=np.intp, count=len(labels))
    return Clusters(codes, len(code_of))
