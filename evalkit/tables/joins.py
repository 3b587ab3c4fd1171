"""Joins that cannot lose or multiply rows in silence."""

from __future__ import annotations

from typing import Literal

import polars as pl

from evalkit.errors import BadInput


def checked_join(
    left: pl.DataFrame,
    right: pl.DataFrame,
    on: str,
    *,
    left_name: str,
    right_name: str,
    unmatched_right: Literal["refuse", "allow"] = "allow",
) -> pl.DataFrame:
    """Every row of `left`, in its order, with the one row of `right` that has its key.

    Args:
        left: many rows to a key are allowed.
        right: one row to a key.
        on: the key column of both.
        left_name: what `left` is, for messages.
        right_name: what `right` is, for messages.
        unmatched_right: whether rows of `right` without a partner are a fault.

    Raises:
        BadInput: a null key, a key twice in `right`, or a row without its partner.
    """
    for frame, name in ((left, left_name), (right, right_name)):
        if frame[on].null_count():
            row = int(frame[on].is_null().arg_max() or 0) + 1
            raise BadInput(f"{name}, row {row}, field {on}: null where a key belongs; fill it in")
    if right[on].n_unique() != right.height:
        twice = right.filter(pl.col(on).is_duplicated())[on][0]
        raise BadInput(f"{right_name}, field {on}: {twice} stands twice; keep one row for it")
    lost = left.join(right, on=on, how="anti")
    if lost.height:
        raise BadInput(
            f"{left_name}, field {on}: {lost[on][0]} is not in {right_name} ({lost.height} of {left.height} rows have "
            "no partner); give both from the same run"
        )
    if unmatched_right == "refuse" and (extra := right.join(left, on=on, how="anti")).height:
        raise BadInput(f"{right_name}, field {on}: {extra[on][0]} is not in {left_name} ({extra.height} rows)")
    return left.join(right, on=on, how="left", maintain_order="left")
