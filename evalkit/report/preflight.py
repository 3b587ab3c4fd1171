"""A preflight as text, section by section, the verdict last."""

from __future__ import annotations

from collections.abc import Mapping

from evalkit.report.plain import number, percent, table, visible
from evalkit.report.stability import stability_lines
from evalkit.runs import Preflight
from evalkit.runs.controls import Control
from evalkit.runs.probe import Count, ShownPrompt

LONGEST = 1500
"""Characters of the prompt that are shown; the whole is in `--json`."""


def preflight_text(found: Preflight) -> str:
    """All sections, then the verdict with one line a reason."""
    head = f"preflight of {found.protocol} on {found.split} with {found.reference}"
    sections = [
        [head],
        _prompt(found),
        _determinism(found),
        _completions(found),
        _answers(found),
        _controls(found),
        _noise(found),
        _verdict(found),
    ]
    return "\n\n".join("\n".join(lines) for lines in sections)


def _prompt(found: Preflight) -> list[str]:
    prompt = found.prompt
    if prompt is None:
        return ["prompt", "  not known here"]
    lines = [f"prompt of item {visible(prompt.item_id)}, the first of {prompt.items} ({prompt.distinct} different)"]
    if prompt.text is not None:
        lines += _shown(prompt.text)
    for message in prompt.messages or ():
        lines += [f"  {message['role']}:", *_shown(message["content"])]
    if prompt.n_tokens is None:
        lines.append("  tokens: not known to the engine")
    else:
        lines += [f"  {prompt.n_tokens} tokens: {_tokens(prompt)}"]
    token = "" if prompt.bos_token is None else f" ({visible(prompt.bos_token)})"
    many = f"cannot tell: {prompt.why}" if prompt.bos is None else f"{prompt.bos}{token}"
    return [*lines, f"  beginning-of-sequence tokens: {many}"]


def _shown(text: str) -> list[str]:
    """Text with what cannot be seen spelled out: line ends, tabs, control characters, spaces at a line's end."""
    if len(text) > LONGEST:
        left = len(text) - LONGEST
        text = f"{text[: LONGEST // 2]} … ({left} characters) … {text[-LONGEST // 2 :]}"
    parts = text.split("\n")
    lines = [visible(_trailing(part).replace("\t", "\\t")) for part in parts]
    return [f"  | {line}\\n" for line in lines[:-1]] + [f"  | {lines[-1]}"]


def _trailing(line: str) -> str:
    kept = line.rstrip(" ")
    return kept + "·" * (len(line) - len(kept))


def _tokens(prompt: ShownPrompt) -> str:
    parts = [_pieces(part) for part in (prompt.head, prompt.tail) if part]
    between = " … " if prompt.n_tokens and prompt.n_tokens > len(prompt.head) + len(prompt.tail) else " "
    return between.join(parts)


def _pieces(tokens: tuple[tuple[int, str], ...]) -> str:
    return " ".join(f"{number}:{visible(repr(piece)[1:-1])}" for number, piece in tokens)


def _determinism(found: Preflight) -> list[str]:
    probe = found.determinism
    asked = {True: "the same text", False: "two texts", None: "not asked"}[probe.greedy_repeats]
    server = [] if probe.greedy_repeats is None else [f"  one prompt twice at temperature 0: {asked}"]
    if probe.why:
        return ["determinism", f"  cannot tell: {probe.why}", *server]
    return [
        "determinism: the run's first requests again, same seeds",
        f"  at once: {_count(probe.again)} say what they said in the run",
        f"  one by one: {_count(probe.alone)} say what they said in the run",
        *server,
    ]


def _count(count: Count) -> str:
    return f"{count.n} of {count.of}"


def _shares(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def _completions(found: Preflight) -> list[str]:
    said = found.completions
    lines = [
        f"completions: {said.planned} of run {found.runs[0]}",
        f"  outcomes: {_shares(said.outcomes)}; finish reasons: {_shares(said.finish_reasons)}",
        f"  cut at max_tokens: {_count(said.truncated)} ({percent(said.truncated.share)})",
        f"  empty: {_count(said.empty)} ({percent(said.empty.share)}), {said.empty_at_stop} of them ended by a stop",
    ]
    if said.past_stop is not None:
        lines.append(f"  go on after a stop string: {_count(said.past_stop)}")
    if said.runs_on is None:
        return [*lines, f"  run on after the answer: cannot tell: {said.why}"]
    return [*lines, f"  run on into another turn ({visible(repr(said.turn))}): {_count(said.runs_on)}"]


def _answers(found: Preflight) -> list[str]:
    lines = [f"answers: {found.successes} of {found.judged} judged samples succeed"]
    for reading in found.readings:
        lines.append(f"  {reading.component} ({reading.use}) read an answer in {_count(reading.read)}")
        if (one := reading.example) is not None:
            why = f" ({visible(one.evidence)})" if one.evidence else ""
            lines += [f"    none in item {visible(one.item_id)}, trial {one.trial}{why}:"]
            lines += [f"    {line}" for line in _shown(one.completion)]
    if not found.readings:
        lines.append("  no component says which answer it read")
    for failing in found.failing:
        first = visible(failing.first or "no reason given")
        lines.append(f"  {failing.component}: {failing.status} on {_count(failing.count)}, first so: {first}")
    return lines


def _controls(found: Preflight) -> list[str]:
    rows, notes = [], []
    for why in {control.reward_why: None for control in found.controls if control.reward_why}:
        notes.append(f"  no reward where {visible(why)}")
    for control in found.controls:
        if control.why:
            notes.append(f"  {control.kind}: cannot tell: {visible(control.why)}")
            continue
        success = control.successes / control.judged if control.judged else None
        rows.append([control.kind, number(success), f"{control.judged}/{control.items}", number(control.reward),
                     f"{control.rewarded}/{control.items}"])  # fmt: skip
        notes += _control_notes(control)
    header = ["", "success", "n", "reward", "n"]
    return ["floors and controls", table(header, rows), *notes]


def _control_notes(control: Control) -> list[str]:
    notes = []
    if control.said is not None:
        notes.append(f"  constant says {visible(repr(control.said[:80]))}")
    if control.others is not None:
        notes.append(f"  shuffled: {control.others_passed} of {control.others} with another target succeed")
    if control.failures:
        notes.append(f"  {control.kind}: {control.failures} scores failed, first so: {visible(control.failure or '')}")
    for miss in control.misses:
        said, target = (visible(repr(text[:120])) for text in (miss.completion, miss.target))
        notes.append(f"  gold fails on {visible(miss.item_id)}: {visible(miss.why)}; said {said}, target {target}")
    return notes


def _noise(found: Preflight) -> list[str]:
    alone = [f"  cannot tell: {found.determinism.why}"]
    return ["noise between two runs", *(stability_lines(found.stability) if found.stability else alone)]


def _verdict(found: Preflight) -> list[str]:
    lines = [f"verdict: {found.verdict}"]
    for finding in found.findings:
        mend = f"; {finding.mend}" if finding.mend else ""
        lines.append(" ".join(f"  {finding.level} {finding.code}: {finding.statement}{mend}".split("\n")))
    return lines
