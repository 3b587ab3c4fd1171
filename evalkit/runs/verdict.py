"""Go or no-go: what preflight found, each as one line with its mend.

1. No-go is what makes numbers of a run wrong or empty whatever the model is. A warning is what a reader must know.
2. What cannot be told is said so; it is neither a fault nor counted as fine.
3. Marks: the alarms' own shares warn (`alarms.py`). `TOO_MANY` stops: one completion in ten moves a mean by more than
   most checkpoints differ. `HALF` is where answers that never saw the question reach half of what there is to measure,
   or where half of the completions have no answer, so that nobody can tell a wrong one from a pattern that reads none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from evalkit.protocol import Lock
from evalkit.rewards.findings import ORDER, Finding, Level
from evalkit.runs.alarms import EXTRACTION
from evalkit.runs.controls import Control, ignores_target

if TYPE_CHECKING:
    from evalkit.runs.preflight import Preflight

TOO_MANY = 0.1
HALF = 0.5
ALARMS: Mapping[str, tuple[float, str]] = {
    "NO_COMPLETIONS": (0.0, "see the outcomes and their causes above, then the engine's log"),
    "EMPTY": (TOO_MANY, "see what ends them: the stop strings, the chat template, or the model itself"),
    "TRUNCATED": (TOO_MANY, "raise sampling.max_tokens, or add the stop string that ends an answer"),
    "UNTERMINATED_REASONING": (TOO_MANY, "raise sampling.max_tokens, or correct reasoning.start and .end"),
    "BATCH": (1.0, "give --concurrency 1, or --engine-arg dtype=float32"),
    "BATCH_DEPENDENT": (1.0, "compare runs only at the same sampling.n, or make the function score each by itself"),
    "UNSTABLE": (1.0, "make the function depend on its arguments alone"),
    "SAME_TRIALS": (1.0, "serve with an engine that honours seeds, or raise the temperature"),
}
"""Alarms of the run that are findings: the share above which they stop, and the mend."""


def judge(lock: Lock, found: Preflight) -> tuple[Finding, ...]:
    """All findings: what stops first, then warnings, then what cannot be told."""
    every = [*_of_prompt(lock, found), *_of_completions(found), *_of_answers(lock, found), *_of_noise(found)]
    every += [finding for control in found.controls for finding in _of_control(lock, control)]
    return tuple(sorted(every, key=lambda finding: ORDER.index(finding.level)))


def _of_prompt(lock: Lock, found: Preflight) -> Iterator[Finding]:
    prompt, policy = found.prompt, lock.spec.prompt.bos
    if prompt is None:
        mend = "give --tokenizer FOLDER"
        yield Finding("cannot tell", "PROMPT", "the prompt is rendered by the model's tokenizer, not at hand", mend)
        return
    if prompt.distinct < prompt.items:
        what = f"{prompt.items} items have {prompt.distinct} different prompts"
        yield Finding("warning", "PROMPTS", what, "let prompt.messages show what tells the items apart")
    if prompt.bos is None:
        yield Finding("cannot tell", "BOS", f"beginning-of-sequence tokens: {prompt.why}", "")
    elif prompt.bos > 1:
        what = f"the prompt begins with {prompt.bos} × {prompt.bos_token}"
        yield Finding("no-go", "BOS", what, "remove one from the template, the text or the engine")
    elif prompt.bos != (policy == "once"):
        what = f"the prompt begins with {prompt.bos} × {prompt.bos_token} under bos: {policy}"
        yield Finding("no-go", "BOS", what, "correct prompt.bos, prompt.bos_token or --tokenizer")


def _of_completions(found: Preflight) -> Iterator[Finding]:
    said = found.completions
    for alarm in found.alarms:
        if alarm.code not in ALARMS:
            continue  # readings and failures say it of every component
        limit, mend = ALARMS[alarm.code]
        what = alarm.statement
        if alarm.code == "EMPTY" and said.empty_at_stop:
            what += f", {said.empty_at_stop} of them ended by a stop string or the end of sequence"
        level: Level = "no-go" if alarm.code == "NO_COMPLETIONS" or alarm.share > limit else "warning"
        yield Finding(level, alarm.code, what, mend)
    if said.past_stop and said.past_stop.n:
        what = f"{said.past_stop.n} of {said.past_stop.of} completions go on after a stop string"
        yield Finding("warning", "STOP", what, "serve with an engine that honours stop")
    if said.runs_on is None:
        yield Finding("cannot tell", "RUNS_ON", f"whether completions run on after the answer: {said.why}", "")
    elif said.runs_on.n:
        what = f"{said.runs_on.n} of {said.runs_on.of} completions run on into another turn or question ({said.turn!r})"
        yield Finding("warning", "RUNS_ON", what, "add it to sampling.stop, or serve with the model's end of turn")
    if set(said.finish_reasons) == {"not said"}:
        yield Finding("cannot tell", "FINISH", "the engine gives no finish reasons: cuts are not known", "")


def _of_answers(lock: Lock, found: Preflight) -> Iterator[Finding]:
    if not found.judged:
        what = f"none of {found.completions.planned} samples has a verdict on success"
        yield Finding("no-go", "NOTHING_JUDGED", what, "see outcomes and failures above")
    elif not found.successes:
        what = f"none of {found.judged} samples succeeds"
        yield Finding("warning", "NO_SUCCESS", what, "read some: evalkit samples " + found.runs[0])
    for reading in found.readings:
        unread = reading.read.of - reading.read.n
        if reading.read.of and unread / reading.read.of > EXTRACTION:
            weight = lock.spec.reward.components[reading.component].weight
            counts = weight != 0 or lock.spec.success.component == reading.component
            level: Level = "no-go" if counts and unread / reading.read.of > HALF else "warning"
            what = f"{reading.component} ({reading.use}) read no answer in {unread} of {reading.read.of} completions"
            yield Finding(level, "UNREAD", what, "correct its pattern or marker, or ask for that form in the prompt")
    if not found.readings:
        yield Finding("cannot tell", "UNREAD", "no component says which answer it read", "")
    for failing in found.failing:
        level = "warning" if failing.status == "unparsed" else "no-go"
        what = f"{failing.component} {failing.status} on {failing.count.n} of {failing.count.of} completions"
        mend = f"first so: {failing.first or 'no reason given'}"
        yield Finding(level, "SCORER", what, mend)


def _of_control(lock: Lock, control: Control) -> Iterator[Finding]:
    code, some = control.kind.upper(), f"{control.successes} of {control.items} items"
    share = control.successes / control.items if control.items else 0.0
    if control.why:
        yield Finding("cannot tell", code, f"what {control.kind} reaches: {control.why}", "")
    elif control.kind == "gold" and control.successes < control.items:
        first = control.misses[0]
        what = f"the gold completion succeeds on {some}; first not on {first.item_id}: {first.why}"
        yield Finding("no-go", code, what, "correct gold_completion, target, the component or the items")
    elif control.kind == "null" and control.successes:
        yield Finding("no-go", code, f"saying nothing succeeds on {some}", "let the scorer refuse an empty completion")
    elif control.kind == "echo" and share >= HALF:
        yield Finding("no-go", code, f"repeating the prompt succeeds on {some}", "let the scorer read the answer only")
    elif control.kind == "shuffled":
        yield from _of_shuffled(lock, control, some)
    elif control.kind == "constant" and share >= HALF:
        what = f"always saying one thing succeeds on {some}: only what is above that is the model's"
        yield Finding("warning", code, what, "balance the targets, or report success beside this floor")
    if control.failures and not (control.kind == "gold" and control.successes < control.items):
        what = f"a component fails on {control.failures} of {control.items} completions of {control.kind}"
        yield Finding("warning", code, what, f"first so: {control.failure}")


def _of_shuffled(lock: Lock, control: Control, some: str) -> Iterator[Finding]:
    """Gold of other items: by luck it has the right target; more than that, and the target is not looked at."""
    others, passed = control.others or 0, control.others_passed or 0
    all_pass = control.successes == control.items
    if not all_pass and (not others or passed / others < HALF):
        return
    if ignores_target(lock):
        what = f"gold of other items succeeds on {some}: success does not look at the target, so it cannot tell"
        yield Finding("warning", "SHUFFLED", what, "add a component that does, or read success as what it is")
        return
    what = f"gold of other items succeeds on {some}, {passed} of the {others} with another target"
    mend = "let the scorer compare with the target" if others else "use items with different targets"
    yield Finding("no-go", "SHUFFLED", what, mend)


def _of_noise(found: Preflight) -> Iterator[Finding]:
    probe, again = found.determinism, found.stability
    if probe.why:
        yield Finding("cannot tell", "DETERMINISM", f"whether requests repeat themselves: {probe.why}", "")
    for count, how in ((probe.again, "together"), (probe.alone, "alone")):
        if count.n < count.of:
            what = f"{count.of - count.n} of {count.of} requests made again {how}, same seed, gave another text"
            yield Finding("warning", "DETERMINISM", what, "honour seeds, or count repeats: --repeat, sampling.n")
    if not probe.why and not probe.again.of:
        yield Finding("cannot tell", "DETERMINISM", "no request that was made again was answered twice", "")
    if probe.greedy_repeats is False:
        what = "the server gave two texts to one prompt at temperature 0"
        yield Finding("warning", "GREEDY", what, "expect repeats to differ; the section on noise says by how much")
    if again is None or again.retest is None:
        yield Finding("cannot tell", "AA", f"noise between runs: {again.why if again else probe.why}", "")
        return
    if again.retest.run_sd is None:
        yield Finding("cannot tell", "AA", f"deviation of a run's mean: {again.retest.why}", "")
    flips = again.retest.flip_rate
    if again.greedy and flips.value:
        what = f"{flips.value:.1%} of {flips.n} samples flip between two runs at temperature 0: noise of the engine"
        yield Finding("warning", "AA", what, "differences of two runs up to 2.8 × the deviation above are noise")
