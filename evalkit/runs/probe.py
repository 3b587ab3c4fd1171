"""What preflight looks at in prompts and completions. Each part says how many it rests on, or why it cannot tell."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from evalkit.engines import Engine, Fingerprint, Request, generates
from evalkit.errors import BadInput
from evalkit.protocol import Lock, Messages, Renderer
from evalkit.rewards import READS_ANSWER
from evalkit.runs.evidence import NO_FAULT
from evalkit.runs.folder import RunFolder
from evalkit.runs.plan import Plan
from evalkit.runs.stability import KEY
from evalkit.runs.tables import read_scores

REPEATED = 8
"""Requests that are made again."""
HEAD, TAIL = 16, 8
"""Tokens of the first prompt that are shown."""
BLANK = re.compile(r"[\s▁ĠĊ]*")
"""White space as tokenizers spell it."""
LABEL = re.compile(r"\w[^:\n]{0,40}:")
"""What opens a question: `Q:`, `Question 3:`."""
LONGEST_EXAMPLE = 300


@dataclass(frozen=True, slots=True)
class Count:
    """So many of so many."""

    n: int
    of: int

    @property
    def share(self) -> float:
        """NaN where there is nothing to count."""
        return self.n / self.of if self.of else float("nan")


@dataclass(frozen=True, slots=True)
class ShownPrompt:
    """The first prompt, as it is sent, and how different the prompts of the items are."""

    item_id: str
    text: str | None
    """None where the server renders."""
    messages: Messages | None
    """None where the client renders."""
    n_tokens: int | None
    """None where the engine does not know the tokens."""
    head: tuple[tuple[int, str], ...]
    tail: tuple[tuple[int, str], ...]
    """The first and last tokens; the tail is empty where the head holds all."""
    bos_token: str | None
    bos: int | None
    """Beginning-of-sequence tokens at the prompt's head; None where it cannot be told, `why` then says so."""
    items: int
    distinct: int
    """Different prompts among those of the items."""
    why: str = ""


def shown_prompt(plan: Plan, engine: Engine, renderer: Renderer) -> ShownPrompt:
    """The prompt of the first item, rendered by `renderer`, and its tokens as `engine` sends them."""
    first, prompts = None, set[str]()
    for request in first_trials(plan, renderer):
        first = first or request
        prompts.add(request.prompt if request.prompt is not None else repr(request.messages))
    assert first is not None  # a split without items is refused before
    tokens = engine.prompt_tokens(first)
    bos, why = _bos(first, tokens, renderer.bos_token)
    return ShownPrompt(
        item_id=first.item_id,
        text=first.prompt,
        messages=first.messages,
        n_tokens=None if tokens is None else len(tokens),
        head=tuple((tokens or ())[:HEAD]),
        tail=tuple((tokens or ())[HEAD:][-TAIL:]),
        bos_token=renderer.bos_token,
        bos=bos,
        items=len(plan.items),
        distinct=len(prompts),
        why=why,
    )


def first_trials(plan: Plan, renderer: Renderer | None) -> list[Request]:
    """The request of every item's first trial; without prompts where there is no renderer."""
    found = []
    for item in plan.items:
        prompt, messages = renderer.prompt(item.fields) if renderer else (None, None)
        sample_id, seed = plan.sample_id(item.item_id, 0), plan.seed(item.item_id, 0)
        found.append(Request(sample_id, item.item_id, 0, seed, prompt, messages, item.fields))
    return found


def _bos(first: Request, tokens: Sequence[tuple[int, str]] | None, bos: str | None) -> tuple[int | None, str]:
    """How many stand at the head, in the tokens where they are known, else in the text; or why that is not known."""
    if first.prompt is None and tokens is None:
        return None, "the server renders the prompt; its log, or a chat_template other than server, shows what it adds"
    if not bos:
        return None, "no beginning-of-sequence token is known; give --tokenizer FOLDER or prompt.bos_token"
    pieces = [piece for _, piece in tokens] if tokens is not None else _cut(first.prompt or "", bos)
    count = 0
    for piece in pieces:
        if piece != bos and not BLANK.fullmatch(piece):
            break
        count += piece == bos
    return count, ""


def _cut(text: str, bos: str) -> list[str]:
    return re.split(f"({re.escape(bos)})", text)


@dataclass(frozen=True, slots=True)
class Determinism:
    """The first requests once more, with the same seeds."""

    again: Count
    """Together with one another: those whose text is that of the run."""
    alone: Count
    """One after the other: those whose text is that of the run."""
    greedy_repeats: bool | None
    """What the server said to one prompt twice at temperature 0; None where it was not asked."""
    why: str = ""
    """Why it cannot be told; empty where it can."""


async def determinism(engine: Engine, plan: Plan, run: RunFolder) -> Determinism:
    """Make the first `REPEATED` requests of a finished run again, together and alone, and compare the texts."""
    asked: bool | None = plan.fingerprint.details.get("greedy_repeats")
    if why := fixed(plan.fingerprint):
        return Determinism(Count(0, 0), Count(0, 0), asked, why)
    texts: dict[str, str | None] = dict(run.samples(["sample_id", "completion"]).iter_rows())
    requests = first_trials(plan, plan.renderer)[:REPEATED]
    await engine.start(requests[0])
    again = {made.sample_id: made.text async for made in engine.generate(iter(requests))}
    alone: dict[str, str | None] = {}
    for request in requests:
        alone |= {made.sample_id: made.text async for made in engine.generate(iter([request]))}
    await engine.verify()
    return Determinism(_same(texts, again), _same(texts, alone), asked)


def fixed(mark: Fingerprint) -> str:
    """Why an engine says nothing about noise; empty where it makes completions."""
    return "" if generates(mark.reference) else f"{mark.reference} makes no completions: what it answers is fixed"


def _same(texts: Mapping[str, str | None], made: Mapping[str, str | None]) -> Count:
    both = [(texts[name], text) for name, text in made.items() if text is not None and texts[name] is not None]
    return Count(sum(before == text for before, text in both), len(both))


@dataclass(frozen=True, slots=True)
class Completions:
    """How the completions of a run ended."""

    planned: int
    outcomes: Mapping[str, int]
    finish_reasons: Mapping[str, int]
    """As the engine said; `not said` where it did not."""
    truncated: Count
    empty: Count
    empty_at_stop: int
    """Of these, the ones that a stop string or the end of sequence ended, not max_tokens."""
    past_stop: Count | None
    """Completions that go on after a stop string of the protocol; None where it has none."""
    runs_on: Count | None
    """Completions that begin another turn or question; None where it cannot be told, `why` then says so."""
    turn: str | None
    """The text by which another turn or question is known."""
    why: str = ""


def completions(run: RunFolder, lock: Lock, renderer: Renderer | None) -> Completions:
    """Outcomes, finish reasons and stops of a finished run."""
    frame = run.samples(["completion", "outcome", "finish_reason"])
    texts = frame.filter(pl.col("completion").is_not_null())
    said = texts["completion"].to_list()
    empty = pl.col("completion").str.strip_chars() == ""
    turn, pattern, why = _turn(lock, renderer)
    stops = lock.spec.sampling.stop
    return Completions(
        planned=frame.height,
        outcomes=_counts(frame["outcome"]),
        finish_reasons=_counts(frame["finish_reason"].fill_null("not said")),
        truncated=Count(texts.filter(pl.col("outcome") == "truncated").height, texts.height),
        empty=Count(texts.filter(empty).height, texts.height),
        empty_at_stop=texts.filter(empty & (pl.col("finish_reason") == "stop")).height,
        past_stop=Count(sum(_goes_past(text, stops) for text in said), len(said)) if stops else None,
        runs_on=None if pattern is None else Count(sum(bool(pattern.search(text)) for text in said), len(said)),
        turn=turn,
        why=why,
    )


def _counts(column: pl.Series) -> dict[str, int]:
    return dict(sorted(column.value_counts().iter_rows()))


def _goes_past(text: str, stops: Sequence[str]) -> bool:
    """Whether there is text after a stop string; an engine that keeps the string itself does stop at it."""
    return any(0 <= text.find(stop) < len(text) - len(stop) for stop in stops)


def _turn(lock: Lock, renderer: Renderer | None) -> tuple[str | None, re.Pattern[str] | None, str]:
    """By what another turn is known: its text, a pattern that finds it, or why there is none."""
    prompt = lock.spec.prompt
    if prompt.chat_template == "server" or renderer is None:
        return None, None, "the prompt is not rendered here, so what opens another turn is not known"
    if prompt.chat_template == "none":
        label = _label(lock)
        if label is None:
            return None, None, "the prompt has no label such as `Question:` by which another question would be known"
        return label, re.compile(rf"\n\s*{re.escape(label)}"), ""
    between = _between_turns(renderer)
    if between is None:
        return None, None, "the chat template has no text between turns by which another would be known"
    return between, re.compile(re.escape(between)), ""


def _label(lock: Lock) -> str | None:
    """The label right before the item in the last user turn, or that all worked examples begin with: `Q:`."""
    prompt = lock.spec.prompt
    users = [turn.content for turn in prompt.messages if turn.role == "user"]
    before = re.split(r"\{[{%#]", users[-1])[0] if users else ""
    if LABEL.fullmatch(line := before.rstrip().rpartition("\n")[2].strip()):
        return line
    labels = {found.group() if (found := LABEL.match(shot.user.lstrip())) else None for shot in prompt.few_shot}
    return labels.pop() if len(labels) == 1 else None


def _between_turns(renderer: Renderer) -> str | None:
    """What the chat template prints between an answer and the next question; None where nothing tells them apart."""
    marks = ("evalkit-question", "evalkit-answer", "evalkit-another")
    roles = ("user", "assistant", "user")
    turns = [{"role": role, "content": mark} for role, mark in zip(roles, marks, strict=True)]
    try:
        text = renderer.joined(turns, "probe")
    except BadInput:
        return None
    if marks[1] not in text or marks[2] not in text:
        return None
    between = text.split(marks[1])[1].split(marks[2])[0].strip()
    return between if len(between) > 2 else None


@dataclass(frozen=True, slots=True)
class Unread:
    """A completion in which no answer was read."""

    item_id: str
    trial: int
    completion: str
    """Shortened in its middle."""
    evidence: str | None


@dataclass(frozen=True, slots=True)
class Reading:
    """How often a component that reads an answer found one."""

    component: str
    use: str
    read: Count
    example: Unread | None
    """The first in which it found none."""


@dataclass(frozen=True, slots=True)
class Failing:
    """Scores of a component that have no value, by status."""

    component: str
    status: str
    count: Count
    first: str | None
    """Evidence of the first."""


def readings(run: RunFolder, lock: Lock) -> tuple[tuple[Reading, ...], tuple[Failing, ...]]:
    """Answers that were read, and scores that failed, component by component."""
    texts = run.samples(["sample_id", "item_id", "trial", "completion"])
    scores = read_scores(run.scores(lock), lock).join(texts, on="sample_id").sort(KEY)
    found, failing = [], []
    for name, component in lock.spec.reward.components.items():
        own = scores.filter(pl.col("component") == name)
        bad = own.filter(~pl.col("status").is_in(NO_FAULT))
        for status, count in _counts(bad["status"]).items():
            first = bad.filter(pl.col("status") == status)["evidence"].drop_nulls()
            failing.append(Failing(name, status, Count(count, own.height), first[0] if len(first) else None))
        if component.use not in READS_ANSWER or component.params.get("mode") == "present":
            continue  # a pattern that is only looked for reads no answer
        judged = own.filter(pl.col("status") == "ok")
        unread = judged.filter(pl.col("answer").is_null())
        example = _unread(unread.row(0, named=True)) if unread.height else None
        found.append(Reading(name, component.use, Count(judged.height - unread.height, judged.height), example))
    return tuple(found), tuple(failing)


def _unread(row: Mapping[str, Any]) -> Unread:
    return Unread(row["item_id"], row["trial"], shortened(row["completion"]), row["evidence"])


def shortened(text: str, longest: int = LONGEST_EXAMPLE) -> str:
    """`text` with its middle left out where it is longer."""
    if len(text) <= longest:
        return text
    half = longest // 2
    return f"{text[:half]} … ({len(text) - 2 * half} characters) … {text[-half:]}"
