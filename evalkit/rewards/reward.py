"""The reward: Σ weight · value over the components of one sample."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal

from evalkit.errors import BadInput


def composite(scores: Mapping[str, float | None], weights: Mapping[str, Decimal | float]) -> float | None:
    """Σ weight · value, not normalised, the same bits in any order of the components (`math.fsum`).

    Args:
        scores: value of each component, `None` where it has no verdict. Components without a weight are ignored.
        weights: weight of each component; 0 = logged only.

    Returns:
        `None` as soon as a weighted component has no verdict, or the sum is not finite, or nothing has a weight.

    Raises:
        BadInput: a weighted component is not among the scores.
    """
    parts = []
    for name, weight in weights.items():
        if weight == 0:
            continue
        if name not in scores:
            raise BadInput(f"reward: component {name!r} has a weight and no score; score the run again")
        value = scores[name]
        if value is None:
            return None
        parts.append(float(weight) * value)
    if not parts or not all(map(math.isfinite, parts)):
        return None
    try:
        return math.fsum(parts)
    except OverflowError:
        return None
