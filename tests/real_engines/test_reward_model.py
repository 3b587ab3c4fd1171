"""A reward model trained here on the example's sums, scored through the public function in its own process."""

import asyncio
import json
import os
import random
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from evalkit.api import audit_reward, freeze_audit
from evalkit.audit import ModelScorer
from evalkit.engines.tokenizer import TokenizerFolder
from evalkit.errors import BadInput
from evalkit.rewards.base import Status
from evalkit.rewards.reward_model import RewardModel, RewardModelOptions, Scored, score_rows
from evalkit.rewards.reward_rows import RewardRow, RowEncoder
from evalkit.workspace import Workspace, create_workspace
from tests.real_engines.support import CHECKPOINT, EXAMPLE, descendants

STEPS, PAIRS = 600, 32
"""About 40 s of CPU; 0.96 of held-out pairs are then ranked right."""
EOS = RewardModelOptions(eos=True)
"""As the model below is trained."""
CHAT = "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}{{ eos_token }}"


def items() -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """Items to train on, and held-out ones of other clusters."""
    every = [json.loads(line) for line in (EXAMPLE / "items.jsonl").read_text().splitlines()]
    clusters = sorted({item["cluster"] for item in every})
    random.Random(0).shuffle(clusters)
    held_out = set(clusters[:200])
    return [item for item in every if item["cluster"] not in held_out], [
        item for item in every if item["cluster"] in held_out
    ]


def wrong(answer: str, pool: list[dict[str, str]], rng: random.Random) -> str:
    """The answer of another item."""
    return rng.choice([item["answer"] for item in rng.sample(pool, 20) if item["answer"] != answer])


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example's model with a head of one logit, trained to prefer right sums (Bradley–Terry)."""
    import torch
    from transformers import AutoModelForSequenceClassification

    folder = tmp_path_factory.mktemp("rewards") / "checkpoint-600"
    torch.manual_seed(0)
    rng = random.Random(0)
    encoder = RowEncoder(TokenizerFolder(CHECKPOINT), (2,), eos=True)
    model = AutoModelForSequenceClassification.from_pretrained(CHECKPOINT, num_labels=1, dtype=torch.float32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    decay = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.02, STEPS)
    train, _ = items()
    for _ in range(STEPS):
        batch = rng.sample(train, PAIRS)
        answers = [item["answer"] for item in batch] + [wrong(item["answer"], train, rng) for item in batch]
        rows = [list(encoder.encode(RewardRow("", item["question"], answer)).ids)
                for item, answer in zip([*batch, *batch], answers, strict=True)]  # fmt: skip
        longest = max(map(len, rows))
        ids = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
        scores = model(input_ids=ids, attention_mask=(ids != 0).long()).logits[:, 0]
        loss = -torch.nn.functional.logsigmoid(scores[:PAIRS] - scores[PAIRS:]).mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        decay.step()
    model.save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(CHECKPOINT / name, folder / name)
    return folder


@pytest.fixture
def changed(trained: Path, tmp_path: Path) -> Callable[..., Path]:
    """A copy of the model with another configuration."""

    def change(config: dict[str, Any] | None = None, tokenizer: dict[str, Any] | None = None) -> Path:
        folder = Path(shutil.copytree(trained, tmp_path / "changed"))
        for name, fields in (("config.json", config or {}), ("tokenizer_config.json", tokenizer or {})):
            path = folder / name
            path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))
        return folder

    return change


def rows(n: int = 40) -> list[RewardRow]:
    _, held_out = items()
    return [RewardRow(item["id"], item["question"], item["answer"]) for item in held_out[:n]]


def score(
    folder: Path, root: Path, given: list[RewardRow] | None = None, options: RewardModelOptions | None = EOS
) -> Scored:
    return score_rows(f"hf-rm:{folder}", rows() if given is None else given, root, options)


def values(scored: Scored) -> list[float]:
    found = [one.score.value for one in scored.scores]
    return [value for value in found if value is not None]


def codes(scored: Scored) -> set[str]:
    return {finding.code for finding in scored.findings}


def test_held_out_right_answers_are_ranked_over_wrong_ones(trained: Path, tmp_path: Path) -> None:
    _, held_out = items()
    rng = random.Random(1)
    right = [RewardRow(f"{item['id']} right", item["question"], item["answer"]) for item in held_out]
    false = [
        RewardRow(f"{item['id']} wrong", item["question"], wrong(item["answer"], held_out, rng)) for item in held_out
    ]
    scored = score(trained, tmp_path, right + false)
    found = values(scored)
    assert len(found) == 2 * len(held_out) == 800
    ranked = [a > b for a, b in zip(found[:400], found[400:], strict=True)]
    assert sum(ranked) / 400 > 0.9
    assert scored.findings == ()
    identity = scored.identity
    assert (identity.step, identity.dtype, identity.max_length, identity.declared_range) == (600, "float32", 96, None)
    assert identity.observed["network"].startswith("blocked")
    assert sorted(identity.files) == ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"]


def test_scores_are_those_of_the_library_on_the_trainers_tokens(trained: Path, tmp_path: Path) -> None:
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(trained)
    model = AutoModelForSequenceClassification.from_pretrained(trained, dtype=torch.float32).eval()
    texts = [row.prompt + row.completion + tokenizer.eos_token for row in rows()]  # type: ignore[operator]
    with torch.inference_mode():
        expected = [float(model(**tokenizer(text, return_tensors="pt")).logits[0, 0]) for text in texts]
    assert values(score(trained, tmp_path)) == pytest.approx(expected, abs=1e-4)


def test_scores_do_not_depend_on_the_batch_in_float32(trained: Path, tmp_path: Path) -> None:
    alone = score(trained, tmp_path, options=RewardModelOptions(eos=True, batch=1))
    together = score(trained, tmp_path, options=RewardModelOptions(eos=True, batch=40))
    assert values(alone) == pytest.approx(values(together), abs=1e-4)
    assert codes(alone) == codes(together) == set()


def test_another_dtype_is_recorded_and_its_rounding_shows(trained: Path, tmp_path: Path) -> None:
    whole = score(trained, tmp_path)
    half = score(trained, tmp_path, options=RewardModelOptions(eos=True, dtype="bfloat16"))
    assert (half.identity.dtype, half.identity.stored_dtype) == ("bfloat16", "float32")
    assert half.identity.model_digest == whole.identity.model_digest
    assert 1e-4 < max(abs(a - b) for a, b in zip(values(whole), values(half), strict=True)) < 1


def test_a_long_row_is_not_scored_or_cut_and_marked(trained: Path, tmp_path: Path) -> None:
    given = [*rows(8), RewardRow("long", "1+" * 60 + "1=", "61")]
    skipped = score(trained, tmp_path, given)
    assert (skipped.scores[-1].score.value, skipped.scores[-1].score.status) == (None, Status.FAILED)
    assert codes(skipped) == {"SCORE.OVERFLOW"}
    cut = score(trained, tmp_path, given, RewardModelOptions(eos=True, overflow="truncate_left"))
    assert [one.row_id for one in cut.scores if one.truncated] == ["long"]
    assert (cut.scores[-1].n_tokens, cut.scores[-1].tail[-1]) == (96, 2)
    assert codes(cut) == {"SCORE.TRUNCATED"}


def test_two_bos_would_move_scores_and_are_not_scored(
    trained: Path, changed: Callable[..., Path], tmp_path: Path
) -> None:
    template = CHAT.replace("{{ bos_token }}", "{{ bos_token }}<s>")
    folder = changed(tokenizer={"chat_template": template})
    turns = [RewardRow(row.row_id, [{"role": "user", "content": str(row.prompt)}], row.completion) for row in rows()]
    scored = score(folder, tmp_path, turns)
    assert values(scored) == []
    (finding,) = scored.findings
    assert (finding.level, finding.code) == ("no-go", "SCORE.DOUBLE_BOS")
    assert finding.statement == "40 of 40 rows begin with two BOS tokens and are not scored"


def test_turns_by_the_template_score_as_the_text_that_it_renders(
    trained: Path, changed: Callable[..., Path], tmp_path: Path
) -> None:
    folder = changed(tokenizer={"chat_template": CHAT})
    turns = [RewardRow(row.row_id, [{"role": "user", "content": str(row.prompt)}], row.completion) for row in rows()]
    scored = score(folder, tmp_path, turns, None)
    assert values(scored) == pytest.approx(values(score(trained, tmp_path)), abs=1e-4)
    assert codes(scored) == set()


def test_the_ending_matters_and_an_assumed_one_is_said(trained: Path, tmp_path: Path) -> None:
    assumed = score(trained, tmp_path, options=None)
    assert values(assumed) == pytest.approx(values(score(trained, tmp_path)), abs=1e-4)
    assert codes(assumed) == {"SCORE.EOS_ASSUMED"}
    without = score(trained, tmp_path, options=RewardModelOptions(eos=False))
    assert codes(without) == {"SCORE.EOS_MISSING"}
    assert max(abs(a - b) for a, b in zip(values(without), values(assumed), strict=True)) > 0.1


def test_padding_that_is_eos_is_read_before_the_end_and_said(
    trained: Path, changed: Callable[..., Path], tmp_path: Path
) -> None:
    scored = score(changed(config={"pad_token_id": 2}), tmp_path)
    assert codes(scored) == {"SCORE.PAD_AT_END", "SCORE.PAD_IS_EOS"}
    without = score(trained, tmp_path, options=RewardModelOptions(eos=False))
    assert values(scored) == pytest.approx(values(without), abs=1e-4)


def test_without_a_padding_token_rows_are_scored_one_by_one(
    trained: Path, changed: Callable[..., Path], tmp_path: Path
) -> None:
    scored = score(changed(config={"pad_token_id": None}), tmp_path)
    assert codes(scored) == {"SCORE.PAD_MISSING"}
    assert values(scored) == pytest.approx(values(score(trained, tmp_path)), abs=1e-4)


def test_a_language_model_without_a_head_and_a_classifier_are_refused(
    changed: Callable[..., Path], tmp_path: Path
) -> None:
    bare = Path(shutil.copytree(CHECKPOINT, tmp_path / "bare"))
    with pytest.raises(BadInput, match=r"architectures: LlamaForCausalLM, no …ForSequenceClassification"):
        score(bare, tmp_path)
    config = json.loads((bare / "config.json").read_text())
    named = {**config, "architectures": ["LlamaForSequenceClassification"], "num_labels": 1}
    (bare / "config.json").write_text(json.dumps(named))
    with pytest.raises(BadInput, match=r"the weights lack score.weight, which would be drawn at random"):
        score(bare, tmp_path)
    three = {"id2label": {"0": "a", "1": "b", "2": "c"}, "label2id": {"a": 0, "b": 1, "c": 2}}
    with pytest.raises(BadInput, match=r"hf-rm:.*: .*(3 logits|score.weight|mismatch)"):
        score(changed(config=three), tmp_path)


async def test_a_model_that_is_killed_is_started_again_and_nothing_is_lost(trained: Path, tmp_path: Path) -> None:
    options = RewardModelOptions(eos=True, batch=4)
    found = {}
    async with RewardModel(f"hf-rm:{trained}", tmp_path, options) as model:
        async for one in model.scores(rows()):
            if not found:
                for pid in descendants(os.getpid()):
                    os.kill(pid, signal.SIGKILL)
            found[one.row_id] = one.score.value
    whole = await asyncio.to_thread(score, trained, tmp_path)
    assert [found[row.row_id] for row in rows()] == pytest.approx(values(whole), abs=1e-4)


def test_an_audit_scores_its_data_once_and_goes_on_after_a_kill(trained: Path, tmp_path: Path) -> None:
    root = create_workspace(tmp_path / "ws").root
    rng = random.Random(1)
    _, held_out = items()
    pool, data, spec = held_out[:60], root / "data.jsonl", root / "rm.yaml"
    answers = [(item["question"], item["answer"], 1) for item in pool]
    answers += [(item["question"], wrong(item["answer"], held_out, rng), 0) for item in pool]
    lines = [
        {"sample_id": i, "item_id": i % 60, "prompt": prompt, "text": text, "label": label}
        for i, (prompt, text, label) in enumerate(answers)
    ]
    data.write_text("".join(json.dumps(line) + "\n" for line in lines))
    spec.write_text(
        "name: rm\nversion: 1\nreward: rm\nlabel: label\nstatistic: auc\nlevel: pooled\ncluster_by: item_id\n"
        "thresholds: {usable: 0.7, trustworthy: 0.8}\n"
    )
    freeze_audit(spec, Workspace(root))
    scorer = ModelScorer(f"hf-rm:{trained}", data, EOS)
    first = audit_reward(scorer, data, spec, workspace=Workspace(root))
    assert first.registered.estimate.value > 0.9
    assert first.verdict.word in ("trustworthy", "usable with limits")
    assert audit_reward(scorer, data, spec, workspace=Workspace(root)).inputs == first.inputs

    (kept,) = (root / ".evalkit" / "scores").iterdir()
    (kept / "scorer.json").unlink()
    journal = kept / "journal.jsonl"
    half = journal.read_text().splitlines(keepends=True)[:60]
    journal.write_text("".join(half) + '{"sample_id": "to')
    seen: list[tuple[int, int]] = []
    after = audit_reward(scorer, data, spec, workspace=Workspace(root), on_scored=lambda *n: seen.append(n))
    assert (seen[0], seen[-1]) == ((61, 120), (120, 120))
    assert journal.read_text().startswith("".join(half))
    assert [f.code for f in after.findings] == [f.code for f in first.findings]
    assert after.evidence.reward == pytest.approx(first.evidence.reward, abs=1e-4)

    tokens = pl.read_parquet(kept / "scores.parquet")["n_tokens"].to_list()
    short = RewardModelOptions(eos=True, max_length=max(tokens) - 1)
    faulty = audit_reward(
        ModelScorer(f"hf-rm:{trained}", data, short), data, spec,
        workspace=Workspace(root),
    )  # fmt: skip
    overflow = next(finding for finding in faulty.findings if finding.code == "SCORE.OVERFLOW")
    assert overflow.severity == "warning"
    assert faulty.ledger.unscored["failed"] == faulty.ledger.eligible - faulty.ledger.used > 0
