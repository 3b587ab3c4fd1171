"""A number with its uncertainty, and the words for having none."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its uncertainty, and what it rests on."""

    value: float | None
    """`None` where the statistic is undefined for these data; `why` then says so."""
    low: float | None
    """Lower end of the interval. `None`, together with `high`, where no interval can be given; `why` then says so."""
    high: float | None
    """Upper end of the interval. Never equal to `low`."""
    n: int
    """Observations behind the value."""
    n_clusters: int
    """Independent clusters behind the interval."""
    method: str
    """Estimator, its degrees of freedom and the level, for people to read."""
    why: str = ""
    """Why there is no value or no interval; empty where both are given."""

    @property
    def half_width(self) -> float | None:
        """Half of high − low; `None` where there is no interval.

        An exact or clipped interval is not centred on `value`, so value ± half_width need not be the interval.
        """
        if self.low is None or self.high is None:
            return None
        return (self.high - self.low) / 2


def undefined(n: int, n_clusters: int, method: str, why: str) -> Estimate:
    """An estimate with neither value nor interval."""
    return Estimate(None, None, None, n, n_clusters, method, why)
