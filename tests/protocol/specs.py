"""A protocol in which every optional part is present, as plain content, and ways to write it down."""

from __future__ import annotations

import copy
import random
from decimal import Decimal
from typing import Any

from evalkit.protocol import ComponentSpec, Lock, ResolvedComponent, parse_spec, resolve

TOOL = "ek1:sha256:" + "0" * 64
FULL: dict[str, Any] = {
    "name": "full",
    "version": 3,
    "description": "Everything.",
    "prompt": {
        "messages": [{"role": "user", "content": "{{ question }}"}],
        "system": "Be brief.",
        "few_shot": [{"user": "1+1=", "assistant": "2"}, {"user": "2+2=", "assistant": "4"}],
        "chat_template": "inline",
        "template": "{% for m in messages %}{{ m.content }}\n{% endfor %}",
        "template_arguments": {"enable_thinking": False},
        "add_generation_prompt": True,
        "bos": "once",
        "bos_token": "<s>",
    },
    "sampling": {
        "max_tokens": 48,
        "temperature": Decimal("0.7"),
        "top_p": Decimal("0.95"),
        "top_k": 50,
        "min_p": Decimal("0.01"),
        "repetition_penalty": Decimal("1.1"),
        "presence_penalty": Decimal("0.5"),
        "frequency_penalty": Decimal("-0.5"),
        "stop": ["\n\n", "0.7"],
        "n": 8,
        "seed": 17,
    },
    "reasoning": {"start": "<think>", "end": "</think>", "unterminated": "wrong"},
    "tools": [{"name": "search", "permission": "ask", "schema_digest": TOOL, "max_calls": 3, "timeout": 10}],
    "limits": {"request_timeout": 60, "retries": 4, "error_budget": Decimal("0.02"), "overflow": "skip"},
    "target": "{{ answer }}",
    "gold_completion": "#### {{ answer }}",
    "reward": {
        "components": {
            "correct": {
                "use": "number",
                "role": "correctness",
                "weight": 1,
                "params": {"marker": "####", "tolerance": Decimal("0.5")},
                "range": [0, 1],
            }
        },
        "deadline": 5,
    },
    "success": {"component": "correct", "at_least": 1},
    "truncation": "wrong",
    "missing": "exclude",
    "metrics": [{"name": "mean"}, {"name": "pass@k", "k": [1, 4], "estimator": "unbiased"}],
    "cluster_key": "cluster_id",
}


def resolver(name: str, component: ComponentSpec) -> ResolvedComponent:
    """Completes a component without the rewards room."""
    declared = component.range if isinstance(component.range, tuple) else (Decimal(0), Decimal(1))
    return ResolvedComponent(component.params, declared, "ek1:sha256:" + "1" * 64)


def lock_of(content: dict[str, Any]) -> Lock:
    """The lock of plain content, by way of YAML text."""
    return resolve(parse_spec(to_yaml(content)), resolver)


def changed(path: str, value: Any) -> dict[str, Any]:
    """FULL with one value replaced; a path is dotted, with numbers for places in a list."""
    content = copy.deepcopy(FULL)
    place: Any = content
    *parents, last = (int(part) if part.isdigit() else part for part in path.split("."))
    for part in parents:
        place = place[part]
    place[last] = value
    return content


def to_yaml(value: Any, rng: random.Random | None = None, depth: int = 0) -> str:
    """YAML text of plain content; with `rng`, keys shuffled and numbers, quotes and layout varied at random."""
    vary = rng or random.Random(0)
    if isinstance(value, dict):
        if not value:
            return "{}"
        keys = list(value)
        if rng:
            vary.shuffle(keys)
        if depth and (rng is None or vary.random() < 0.5):
            return _flow(value, rng)
        if depth:
            pad = "  " * depth
            return "".join(f"\n{pad}{key}: {to_yaml(value[key], rng, depth + 1)}" for key in keys)
        gap = "\n# a comment\n\n" if rng else "\n"
        return gap.join(f"{key}: {_top(value[key], rng)}" for key in keys) + "\n"
    if isinstance(value, list):
        return "[" + ", ".join(_flow(item, rng) for item in value) + "]"
    return _scalar(value, rng)


def _top(value: Any, rng: random.Random | None) -> str:
    return to_yaml(value, rng, 1) if isinstance(value, dict) else to_yaml(value, rng)


def _flow(value: Any, rng: random.Random | None) -> str:
    if isinstance(value, dict):
        keys = list(value)
        if rng:
            rng.shuffle(keys)
        return "{" + ", ".join(f"{key}: {_flow(value[key], rng)}" for key in keys) + "}"
    return to_yaml(value, rng)


def _scalar(value: Any, rng: random.Random | None) -> str:
    if value is None:
        return "null" if rng is None else rng.choice(["null", "~"])
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        return spell(value, rng) if rng else str(value)
    if isinstance(value, int):
        return str(value)
    text = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{text}"'


def spell(value: Decimal, rng: random.Random) -> str:
    """One of the ways to write a decimal number."""
    sign = "-" if value < 0 else ""
    plain = format(abs(value), "f")
    digits = plain.replace(".", "").lstrip("0") or "0"
    exponent = -len(plain.partition(".")[2])
    return sign + rng.choice([plain, plain + "0", f"{digits}e{exponent}", f"{digits}0E{exponent - 1}", plain + "e0"])
