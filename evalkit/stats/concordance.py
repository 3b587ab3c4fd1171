"""Which pairs of observations two variables order the same way, counted per observation in O(n log n).

1. Every pair is exactly one of five: concordant, discordant, tied in x only, in y only, in both.
2. Counts are kept per observation, since the sampling error of a statistic of pairs is the spread of these counts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evalkit.stats.arrays import FloatArray

Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class PairCounts:
    """Of each observation's n − 1 partners, how many pairs are of each kind. Shape (n,) each; they sum to n − 1."""

    concordant: Counts
    discordant: Counts
    tied_x: Counts
    """Tied in x, not in y."""
    tied_y: Counts
    tied_both: Counts

    def shares(self) -> FloatArray:
        """Shape (5, n): the counts in the order above, over n − 1."""
        rows = (self.concordant, self.discordant, self.tied_x, self.tied_y, self.tied_both)
        return np.asarray(np.stack(rows) / (self.concordant.size - 1), dtype=np.float64)


def pair_counts(x: FloatArray, y: FloatArray) -> PairCounts:
    """The pairs of `x` and `y`, shape (n,) each, finite, n ≥ 2."""
    n = x.size
    first, second = dense_codes(x), dense_codes(y)
    if first.max() < second.max():  # the search below takes a step per bit of the second's codes
        swapped = pair_counts(y, x)
        return PairCounts(swapped.concordant, swapped.discordant, swapped.tied_y, swapped.tied_x, swapped.tied_both)
    size_x, size_y = np.bincount(first), np.bincount(second)
    below_x, below_y = np.cumsum(size_x) - size_x, np.cumsum(size_y) - size_y
    cell = first * (second.max() + 1) + second
    cells, cell_of, size_cell = np.unique(cell, return_inverse=True, return_counts=True)
    # Cells stand in order of x, then y: those before in the same x are tied in x and smaller in y.
    before_cell = np.cumsum(size_cell) - size_cell
    tied_x_smaller_y = (before_cell - below_x[cells // (second.max() + 1)])[cell_of]
    by_y = np.lexsort((cells, cells % (second.max() + 1)))
    before_by_y = np.empty_like(before_cell)
    before_by_y[by_y] = np.cumsum(size_cell[by_y]) - size_cell[by_y]
    tied_y_smaller_x = (before_by_y - below_y[cells % (second.max() + 1)])[cell_of]

    order = np.lexsort((-second, first))
    both_smaller = np.empty(n, dtype=np.int64)
    both_smaller[order] = _smaller_before(second[order])
    same_x, same_y, same = size_x[first], size_y[second], size_cell[cell_of]
    neither_larger = both_smaller + tied_x_smaller_y + tied_y_smaller_x + same
    both_larger = n - (below_x[first] + same_x) - (below_y[second] + same_y) + neither_larger
    concordant = both_smaller + both_larger
    tied_x, tied_y, tied_both = same_x - same, same_y - same, same - 1
    return PairCounts(concordant, n - 1 - concordant - tied_x - tied_y - tied_both, tied_x, tied_y, tied_both)


def dense_codes(values: FloatArray) -> Counts:
    """Each value's place among the distinct values, from 0."""
    return np.unique(values, return_inverse=True)[1].astype(np.int64)


def mid_ranks(values: FloatArray) -> FloatArray:
    """Ranks from 1 to n, tied values sharing their mean rank."""
    codes = dense_codes(values)
    sizes = np.bincount(codes)
    return np.asarray((np.cumsum(sizes) - (sizes - 1) / 2)[codes], dtype=np.float64)


def _smaller_before(codes: Counts) -> Counts:
    """For each position, how many earlier positions hold a smaller code.

    From the highest bit down, positions whose codes agree so far are one block in their original order; where the next
    bit is 1, the block's earlier zeros are smaller. The block is then split by that bit.
    """
    n = codes.size
    found = np.zeros(n, dtype=np.int64)
    order = np.arange(n)
    starts = np.zeros(n, dtype=np.int64)  # of the block each position of `order` stands in
    for bit in reversed(range(int(codes.max()).bit_length())):
        one = (codes[order] >> bit) & 1
        zeros = np.concatenate([[0], np.cumsum(1 - one)])
        zeros_before = zeros[:-1] - zeros[starts]
        found[order] += one * zeros_before
        ends = _ends(starts)
        zeros_in_block = zeros[ends] - zeros[starts]
        second_half = starts + zeros_in_block
        target = np.where(one, second_half + (np.arange(n) - starts) - zeros_before, starts + zeros_before)
        moved, moved_starts = np.empty_like(order), np.empty_like(starts)
        moved[target], moved_starts[target] = order, np.where(one, second_half, starts)
        order, starts = moved, moved_starts
    return found


def _ends(starts: Counts) -> Counts:
    """End of the block of each position, from the blocks' starts, which ascend."""
    firsts = np.flatnonzero(np.concatenate([[True], starts[1:] != starts[:-1]]))
    lengths = np.diff(np.append(firsts, starts.size))
    return np.repeat(firsts + lengths, lengths)
