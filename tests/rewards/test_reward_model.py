"""Scoring with a reward model in a child process: every row one score or a reason, and findings on what moves scores."""

import json
import os
import struct
import time
from pathlib import Path
from typing import Any

import pytest

from evalkit.errors import BadInput, InfrastructureFailed, Refused
from evalkit.rewards.base import Status
from evalkit.rewards.reward_model import RewardModel, RewardModelOptions, Scored
from evalkit.rewards.reward_rows import RewardRow
from tests.rewards.test_reward_rows import tokenizer

ROWS = [RewardRow(f"r{i}", "1+1=", str(i) * i) for i in range(1, 10)]
"""Scores are a constant + i·(19 + i) / 100; over the 8 rows that are probed, all but r5, their deviation is 0.796."""


class Scripted(RewardModel):
    """The scripted child of `tests/servers/reward_worker.py`."""

    module = "tests.servers.reward_worker"
    packages = ()


@pytest.fixture(autouse=True)
def _child_finds_the_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))


def model_folder(folder: Path, pad: int | None = 2, template: str | None = None, **behaviour: Any) -> Path:
    folder.mkdir(exist_ok=True)
    tokenizer(folder, template)
    config = {
        "architectures": ["LlamaForSequenceClassification"],
        "dtype": "float32",
        "max_position_embeddings": 16,
        "pad_token_id": pad,
        "eos_token_id": 1,
        "behaviour": behaviour,
    }
    (folder / "config.json").write_text(json.dumps(config))
    header = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(4))
    return folder


async def score(
    root: Path, folder: Path, rows: list[RewardRow] | None = None, options: RewardModelOptions | None = None
) -> Scored:
    rows = ROWS if rows is None else rows
    async with Scripted(f"hf-rm:{folder}", root, options) as model:
        found = {one.row_id: one async for one in model.scores(rows)}
        return Scored(tuple(found[row.row_id] for row in rows), model.findings(), model.identity)


def codes(scored: Scored) -> list[tuple[str, str]]:
    return [(finding.level, finding.code) for finding in scored.findings]


async def test_every_row_gets_the_score_of_its_own_tokens(tmp_path: Path) -> None:
    scored = await score(tmp_path, model_folder(tmp_path / "rm"), options=RewardModelOptions(batch=2, eos=True))
    encode = tokenizer(tmp_path / "rm", None).encode
    expected = [(sum(encode("1+1=" + row.completion)) + 1) / 100 for row in ROWS]
    assert [one.score.value for one in scored.scores] == pytest.approx(expected, abs=1e-12)
    assert [one.n_tokens for one in scored.scores] == [6 + i for i in range(1, 10)]
    assert scored.scores[0].tail == (0, 20, 14, 20, 32, 20, 1)
    assert codes(scored) == []


async def test_the_ending_that_is_assumed_is_said_where_it_matters(tmp_path: Path) -> None:
    scored = await score(tmp_path, model_folder(tmp_path / "rm"))
    (finding,) = scored.findings
    assert (finding.level, finding.code) == ("cannot tell", "SCORE.EOS_ASSUMED")
    assert "with the other ending rows score otherwise: by up to 0.01, 0.013 standard deviations" in finding.statement


async def test_scores_that_depend_on_the_batch_are_a_finding_with_its_size(tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "rm", shift_together=0.05)
    scored = await score(tmp_path, folder, options=RewardModelOptions(eos=True))
    (finding,) = scored.findings
    assert (finding.level, finding.code) == ("no-go", "SCORE.BATCH_VARIANT")
    assert "by up to 0.05, 0.063 standard deviations" in finding.statement
    assert "on 8 rows; 0 of 28 pairs change order" in finding.statement
    assert finding.mend == "score with batch 1, or in float32"
    assert len(finding.rows) == 5


async def test_a_hundredth_of_a_deviation_between_batches_is_no_finding(tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "rm", shift_together=0.005)
    assert codes(await score(tmp_path, folder, options=RewardModelOptions(eos=True))) == []


async def test_scores_that_depend_on_the_side_of_the_padding_are_a_finding(tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "rm", shift_left=-0.5)
    scored = await score(tmp_path, folder, options=RewardModelOptions(eos=True))
    assert codes(scored) == [("warning", "SCORE.PADDING_VARIANT")]
    assert scored.identity.padding_side == "right"


async def test_padding_that_is_eos_is_said_with_what_it_does(tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "rm", pad=1, answers={"20": 0.3})
    scored = await score(tmp_path, folder, options=RewardModelOptions(eos=True))
    assert codes(scored) == [("warning", "SCORE.PAD_AT_END"), ("warning", "SCORE.PAD_IS_EOS")]
    assert scored.findings[0].statement.startswith("9 of 9 rows end in the padding token, so the library reads")
    assert "at the last token they score otherwise: by up to 0.01" in scored.findings[1].statement


async def test_a_model_without_a_padding_token_is_said(tmp_path: Path) -> None:
    scored = await score(tmp_path, model_folder(tmp_path / "rm", pad=None), options=RewardModelOptions(eos=True))
    assert codes(scored) == [("warning", "SCORE.PAD_MISSING")]


@pytest.mark.parametrize("said", ["nan", "inf", "-inf"])
async def test_a_score_that_is_not_finite_is_no_score(tmp_path: Path, said: str) -> None:
    folder = model_folder(tmp_path / "rm", answers={"24": said})  # rows whose completion ends in 5
    scored = await score(tmp_path, folder, options=RewardModelOptions(eos=True))
    bad = scored.scores[4]
    assert (bad.row_id, bad.score.value, bad.score.status) == ("r5", None, Status.NAN)
    assert bad.score.evidence == f"the model returned {said}"
    assert sum(one.score.value is None for one in scored.scores) == 1
    assert [(f.level, f.code, f.rows) for f in scored.findings] == [("no-go", "SCORE.NONFINITE", ("r5",))]


async def test_a_row_that_does_not_fit_into_memory_is_no_score(tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "rm", answers={"28": None})
    scored = await score(tmp_path, folder, options=RewardModelOptions(eos=True))
    assert [one.row_id for one in scored.scores if one.score.status is Status.FAILED] == ["r9"]
    assert codes(scored) == [("no-go", "SCORE.OUT_OF_MEMORY")]


async def test_different_rows_that_all_score_the_same_are_a_no_go(tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "rm", constant=0.25)
    scored = await score(tmp_path, folder, options=RewardModelOptions(eos=True))
    assert [(f.level, f.code, f.statement) for f in scored.findings] == [
        ("no-go", "SCORE.CONSTANT", "9 different rows all score 0.25")
    ]


async def test_different_rows_with_exactly_one_score_are_counted(tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "rm", answers={"21": 0.75, "22": 0.75})
    scored = await score(tmp_path, folder, options=RewardModelOptions(eos=True))
    (finding,) = scored.findings
    assert finding.code == "SCORE.QUANTISED_TIES"
    assert finding.statement.startswith("2 of 9 different rows share their score with another (float32")


async def test_a_long_row_is_skipped_or_cut_and_marked_and_never_scored_as_whole(tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "rm")
    rows = [*ROWS, RewardRow("long", "1+1=", "0" * 20)]
    skipped = await score(tmp_path, folder, rows, RewardModelOptions(eos=True))
    assert skipped.scores[-1].score.evidence == "26 tokens where the model takes 16"
    assert codes(skipped) == [("no-go", "SCORE.OVERFLOW")]
    cut = await score(tmp_path, folder, rows, RewardModelOptions(eos=True, overflow="truncate_left"))
    assert [one.row_id for one in cut.scores if one.truncated] == ["long"]
    assert (cut.scores[-1].n_tokens, cut.scores[-1].score.status) == (16, Status.OK)
    assert [(f.code, f.rows) for f in cut.findings] == [("SCORE.TRUNCATED", ("long",))]
    assert cut.findings[0].statement.startswith("1 of 10 rows were cut")


async def test_a_row_with_two_bos_has_no_score_and_the_finding_names_the_fix(tmp_path: Path) -> None:
    rows = [*ROWS, RewardRow("twice", "<s><s>1+1=", "2")]
    scored = await score(tmp_path, model_folder(tmp_path / "rm"), rows, RewardModelOptions(eos=True))
    assert (scored.scores[-1].score.value, scored.scores[-1].score.status) == (None, Status.FAILED)
    (finding,) = scored.findings
    assert (finding.level, finding.code, finding.rows) == ("no-go", "SCORE.DOUBLE_BOS", ("twice",))
    assert finding.mend.startswith("take one away: the template writes it")


async def test_an_id_that_stands_twice_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="row r1: this id stands twice"):
        await score(tmp_path, model_folder(tmp_path / "rm"), [ROWS[0], ROWS[0]])


async def test_no_rows_give_no_scores_and_no_findings(tmp_path: Path) -> None:
    scored = await score(tmp_path, model_folder(tmp_path / "rm"), [])
    assert (scored.scores, scored.findings) == ((), ())


async def test_a_child_that_dies_twice_is_started_again_and_loses_nothing(tmp_path: Path) -> None:
    scored = await score(tmp_path, model_folder(tmp_path / "rm", deaths=2), options=RewardModelOptions(eos=True))
    assert all(one.score.status is Status.OK for one in scored.scores)


async def test_a_child_that_keeps_dying_ends_it_with_its_last_words(tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "rm", deaths=3)
    with pytest.raises(InfrastructureFailed, match=r"died 3 times .* it ended with code 3 \(RuntimeError: the card"):
        await score(tmp_path, folder)
    assert list((tmp_path / ".evalkit" / "logs").iterdir())


async def test_nothing_is_left_behind(tmp_path: Path) -> None:
    scored = await score(tmp_path, model_folder(tmp_path / "rm"))
    pid = scored.identity.observed["pid"]
    for _ in range(100):
        if not Path(f"/proc/{pid}").exists():
            break
        time.sleep(0.05)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert list((tmp_path / ".evalkit" / "logs").iterdir()) == []


async def test_what_the_library_refuses_or_fails_at_is_said(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"--reward-model hf-rm:.*: 3 logits"):
        await score(tmp_path, model_folder(tmp_path / "rm", refused="3 logits"))
    with pytest.raises(InfrastructureFailed, match="the model does not load: out of memory"):
        await score(tmp_path, model_folder(tmp_path / "rm", failed="out of memory"))


async def test_identity_holds_what_can_change_a_score(tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "rm")
    first = Scripted(f"hf-rm:{folder}", tmp_path).identity
    assert (first.dtype, first.stored_dtype, first.max_length, first.declared_range) == ("float32", "float32", 16, None)
    assert sorted(first.files) == ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"]
    other = Scripted(f"hf-rm:{folder}", tmp_path, RewardModelOptions(dtype="bfloat16", max_length=8)).identity
    assert (other.dtype, other.stored_dtype, other.max_length) == ("bfloat16", "float32", 8)
    model_folder(folder, template="{{ bos_token }}{{ messages[0].content }}")
    third = Scripted(f"hf-rm:{folder}", tmp_path).identity
    assert first.chat_template_digest is None
    assert third.chat_template_digest is not None
    assert first.model_digest != third.model_digest


def test_a_folder_that_is_no_reward_model_is_an_error_that_names_the_fix(tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "rm")
    with pytest.raises(BadInput, match="not hf-rm:PATH; give the folder"):
        Scripted("hf:x", tmp_path)
    with pytest.raises(BadInput, match="max_length: 17, and the model takes 16"):
        Scripted(f"hf-rm:{folder}", tmp_path, RewardModelOptions(max_length=17))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "architectures": ["LlamaForCausalLM"]}))
    with pytest.raises(BadInput, match="field architectures: LlamaForCausalLM, no …ForSequenceClassification"):
        Scripted(f"hf-rm:{folder}", tmp_path)


def test_code_and_pickles_are_refused(tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "rm")
    (folder / "modeling.py").write_text("raise SystemExit")
    with pytest.raises(Refused, match="holds code"):
        Scripted(f"hf-rm:{folder}", tmp_path)
    (folder / "modeling.py").unlink()
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "auto_map": {"AutoModel": "x.Y"}}))
    with pytest.raises(Refused, match="field auto_map"):
        Scripted(f"hf-rm:{folder}", tmp_path)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(Refused, match="a pickle"):
        Scripted(f"hf-rm:{folder}", tmp_path)
