"""Tables are checked at the border, and joins cannot lose rows."""

import polars as pl
import pytest

from evalkit.errors import BadInput
from evalkit.tables import SCORES, check, checked_join

GOOD = pl.DataFrame(
    {
        "sample_id": ["a", "b"], "scorer": ["s", "s"], "component": ["c", "c"], "repeat": [0, 0], "value": [1.0, None],
        "status": ["ok", "failed"], "answer": [None, "x"], "evidence": ["e", None],
    },
    schema=SCORES.polars(),
)  # fmt: skip


def test_a_good_table_comes_back_in_the_order_of_its_columns() -> None:
    assert check(GOOD.select(reversed(GOOD.columns)), SCORES, "f").columns == list(SCORES.columns)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (GOOD.drop("value"), "f: no column value in table scores; its columns are sample_id, scorer"),
        (GOOD.with_columns(more=1), "f: unknown column more in table scores"),
        (GOOD.with_columns(status=pl.Series(["ok", "okk"])), "f, row 2, field status: String 'okk' where String, one of ok,"),
        (GOOD.with_columns(value=pl.Series([1.0, float("nan")])), "f, row 2, field value: Float64 nan where Float64 or null"),
        (GOOD.with_columns(value=pl.Series([float("inf"), 1.0])), "f, row 1, field value: Float64 inf where Float64 or null"),
        (GOOD.with_columns(repeat=pl.lit(-1, pl.Int32)), "f, row 1, field repeat: Int32 -1 where Int32, at least 0"),
        (GOOD.with_columns(repeat=pl.lit("x")), "f, field repeat: String where Int32, at least 0 belongs"),
        (GOOD.with_columns(sample_id=pl.Series(["a", None])), "f, row 2, field sample_id: String None where String belongs"),
        (GOOD.with_columns(sample_id=pl.lit("a")), "f, row 2, field sample_id + scorer + component + repeat: a, s, c, 0 stands at row 1 already"),
    ],
)  # fmt: skip
def test_a_fault_is_named_by_row_and_field(frame: pl.DataFrame, message: str) -> None:
    with pytest.raises(BadInput) as error:
        check(frame, SCORES, "f")
    assert message in str(error.value)


LEFT = pl.DataFrame({"item_id": ["b", "a", "b"], "x": [1, 2, 3]})
RIGHT = pl.DataFrame({"item_id": ["a", "b", "c"], "y": ["A", "B", "C"]})


def joined(left: pl.DataFrame, right: pl.DataFrame, **how: str) -> pl.DataFrame:
    return checked_join(left, right, "item_id", left_name="samples", right_name="items", **how)  # type: ignore[arg-type]


def test_a_join_keeps_every_row_and_its_order() -> None:
    assert joined(LEFT, RIGHT)["y"].to_list() == ["B", "A", "B"]


@pytest.mark.parametrize(
    ("left", "right", "how", "message"),
    [
        (LEFT, RIGHT.head(1), {}, "samples, field item_id: b is not in items (2 of 3 rows have no partner)"),
        (LEFT, pl.concat([RIGHT, RIGHT.head(1)]), {}, "items, field item_id: a stands twice; keep one row for it"),
        (LEFT.with_columns(item_id=pl.lit(None, pl.String)), RIGHT, {}, "samples, row 1, field item_id: null where a key"),
        (LEFT, RIGHT, {"unmatched_right": "refuse"}, "items, field item_id: c is not in samples (1 rows)"),
    ],
)  # fmt: skip
def test_a_join_that_would_lose_or_multiply_rows_is_an_error(
    left: pl.DataFrame, right: pl.DataFrame, how: dict[str, str], message: str
) -> None:
    with pytest.raises(BadInput) as error:
        joined(left, right, **how)
    assert message in str(error.value)
