"""Recordings: answered by item and trial, refused under another generation, provider-asserted without a header."""

import asyncio
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from evalkit.engines import Completion, EngineOptions, Fingerprint, Gold, Request, make_engine
from evalkit.errors import BadInput, Refused
from tests.protocol.specs import FULL, lock_of

LOCK = lock_of(FULL)
ITEMS = ["a", "b"]
MODEL = "ek1:sha256:" + "a" * 64
HEADER = {
    "model_digest": MODEL,
    "generation_digest": LOCK.digests.generation,
    "step": 300,
    "train_seed": 1,
    "arm": "clean",
}


def rows(**columns: Any) -> pl.DataFrame:
    pairs = [(item, trial) for item in ITEMS for trial in range(8)]
    frame = pl.DataFrame({"item_id": [i for i, _ in pairs], "trial": [t for _, t in pairs],
                          "completion": [f"{i}{t}" for i, t in pairs]})  # fmt: skip
    return frame.with_columns(**columns)


def write(path: Path, frame: pl.DataFrame, header: Any = HEADER) -> Path:
    frame.write_parquet(path, metadata={} if header is None else {"evalkit": json.dumps(header)})
    return path


def replay(path: Path, items: list[str] = ITEMS) -> tuple[Fingerprint, list[Completion]]:
    async def go() -> tuple[Fingerprint, list[Completion]]:
        engine = make_engine(f"replay:{path}", LOCK, Gold(items, dict), EngineOptions(path.parent))
        mark = await engine.open()
        wanted = (Request(f"{i}-{t}", i, t, 0, None, None, {}) for i in items for t in range(8))
        return mark, [completion async for completion in engine.generate(wanted)]

    return asyncio.run(go())


def test_every_request_gets_the_completion_of_its_item_and_trial(tmp_path: Path) -> None:
    mark, found = replay(write(tmp_path / "r.parquet", rows().sample(fraction=1, shuffle=True, seed=1)))
    assert [(c.sample_id, c.text) for c in found] == [(f"{i}-{t}", f"{i}{t}") for i in ITEMS for t in range(8)]
    assert (mark.model_digest, mark.step, mark.train_seed, mark.lineage) == (MODEL, 300, 1, "clean")
    assert mark.assurance == "recorded"


def test_a_recording_of_another_generation_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "r.parquet", rows(), {**HEADER, "generation_digest": "ek1:sha256:" + "b" * 64})
    with pytest.raises(Refused) as error:
        replay(path)
    assert f"recorded under generation bbbbbbbbbbbb, protocol {LOCK.id} has" in str(error.value)


def test_a_recording_without_a_header_is_its_providers_word(tmp_path: Path) -> None:
    mark, _ = replay(write(tmp_path / "r.parquet", rows(), None))
    other, _ = replay(write(tmp_path / "s.parquet", rows(completion=pl.lit("x")), None))
    assert mark.assurance == "provider-asserted"
    assert mark.model_digest != other.model_digest


def test_jsonl_with_a_header_line_is_a_recording(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    lines = [json.dumps({"evalkit": HEADER}), *(json.dumps(row) for row in rows().iter_rows(named=True))]
    path.write_text("\n".join(lines) + "\n")
    mark, found = replay(path)
    assert mark.model_digest == MODEL
    assert len(found) == 16


def test_outcomes_follow_from_finish_reasons_where_none_are_recorded(tmp_path: Path) -> None:
    reasons = pl.Series(["stop"] * 8 + ["length"] * 8)
    _, found = replay(write(tmp_path / "r.parquet", rows(finish_reason=reasons)))
    assert [c.outcome for c in found] == ["completed"] * 8 + ["truncated"] * 8


def test_planned_samples_that_are_not_recorded_are_refused_before_anything_runs(tmp_path: Path) -> None:
    path = write(tmp_path / "r.parquet", rows())
    with pytest.raises(BadInput) as error:
        replay(path, ["a", "b", "c"])
    assert str(error.value) == (
        f"{path}: lacks 8 of 24 planned samples, the first item c trial 0; record all of the split, or replay on the "
        "split that was recorded"
    )


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (rows().drop("trial"), "no column trial; a recording has item_id, trial, completion"),
        (rows(completion=pl.lit(None, pl.String)), "row 1, field completion: null where the outcome says there is a completion"),
        (rows(trial=pl.lit(-1)), "row 1, field trial: not a trial from 0"),
        (rows(trial=pl.lit(0)), "row 1, field item_id + trial: the same sample twice"),
        (rows(outcome=pl.lit("fine")), "row 1, field outcome: not one of completed, truncated"),
        (rows(trial=pl.lit("x")), "row 1, field trial: text where Int32 belongs"),
        (rows(completion=pl.lit(3)), "row 1, field completion: whole number where String belongs"),
    ],
)  # fmt: skip
def test_a_faulty_row_is_named(tmp_path: Path, frame: pl.DataFrame, message: str) -> None:
    path = write(tmp_path / "r.parquet", frame)
    with pytest.raises(BadInput) as error:
        replay(path)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ([1], "header: list where an object belongs"),
        ({**HEADER, "model_digest": "abc"}, "header field model_digest: text where ek1:sha256:… belongs"),
        ({**HEADER, "step": "300"}, "header field step: text where a whole number belongs"),
    ],
)
def test_a_faulty_header_is_named(tmp_path: Path, header: Any, message: str) -> None:
    with pytest.raises(BadInput) as error:
        replay(write(tmp_path / "r.parquet", rows(), header))
    assert message in str(error.value)


@pytest.mark.parametrize("content", [b"", b"not parquet", b"PAR1PAR1"])
def test_a_file_that_is_no_recording_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "r.parquet"
    path.write_bytes(content)
    with pytest.raises(BadInput, match="not Parquet"):
        replay(path)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no such file; replay takes Parquet, JSONL or the folder of a run"):
        replay(tmp_path / "nope.parquet")


def test_a_broken_jsonl_line_is_named_by_row(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text('{"item_id": "a", "trial": 0, "completion": "x"}\n{"item_id": \n')
    with pytest.raises(BadInput, match=r"r\.jsonl, row 2: not JSON"):
        replay(path)


def test_a_step_that_contradicts_the_recording_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "r.parquet", rows())

    async def go(step: int) -> Fingerprint:
        return await make_engine(f"replay:{path}", LOCK, Gold(ITEMS, dict), EngineOptions(tmp_path, step=step)).open()

    assert asyncio.run(go(300)).step == 300
    with pytest.raises(BadInput, match="header field step: 300, but --step says 200; leave the flag out"):
        asyncio.run(go(200))
