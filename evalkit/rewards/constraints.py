"""`constraints`: the completion follows the item's instructions, of the 25 types of IFEval.

1. An item says what is asked in two lists of one length, as IFEval's data do: ids of instructions, and for each an
   object of its arguments. `instructions.py` has the types.
2. Strict looks at the completion as it stands. Loose asks whether the completion, or what is left of it without its
   first line, its last line or both, each also without asterisks, follows: eight texts, and each instruction may be
   followed by another of them. So loose forgives `Sure, here it is:` and Markdown, and never gives less than strict.
3. A completion or a variant of it that is white space alone follows nothing, not even `no_comma`.
4. An item that cannot be read is no verdict: passing it would be a gift, failing it a fault of the model's.

Source: Zhou et al. 2023, arXiv 2311.07911, section 2.2; `instructions.py` says where we differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from evalkit.rewards.base import Response, Score, Status, no_verdict, ok
from evalkit.rewards.instructions import INSTRUCTIONS, kind_holds
from evalkit.rewards.language import is_installed


class Malformed(ValueError):
    """The item does not say what is asked; the message says where and what to give."""


@dataclass(frozen=True, slots=True)
class Constraints:
    """1 if the completion follows the instructions of the item, else 0; or the share that it follows.

    Agrees with 1,663 of the 1,664 verdicts, strict and loose, that IFEval's authors recorded for GPT-4. The other is a
    count of `#`, for which the reference of that day drew a letter at random: loose failed what strict had passed.
    """

    mode: str = "strict"
    """`strict` or `loose`, as the rules above say."""
    aggregate: str = "all"
    """`all`: 1 if every instruction is followed (IFEval's prompt level); `mean`: the share that is followed."""
    ids_field: str = "instruction_id_list"
    """Field of the item with the list of instruction ids, `punctuation:no_comma`."""
    kwargs_field: str = "kwargs"
    """Field with the list of objects of arguments, `{"num_words": 300, "relation": "at least"}`; an argument that is
    null counts as not there, for tables give every row every argument."""

    declared_range: ClassVar[tuple[float, float]] = (0.0, 1.0)

    def __post_init__(self) -> None:
        if self.mode not in ("strict", "loose"):
            raise ValueError(f"mode: {self.mode!r} is neither strict nor loose")
        if self.aggregate not in ("all", "mean"):
            raise ValueError(f"aggregate: {self.aggregate!r} is neither all nor mean")
        if not is_installed():
            raise ValueError("needs the package langdetect; pip install 'evalkit-rl[constraints]'")

    def score(self, response: Response) -> Score:
        try:
            asked = self._asked(response.item)
        except Malformed as why:
            return no_verdict(Status.FAILED, str(why))
        texts = _variants(response.completion) if self.mode == "loose" else [response.completion]
        texts = [text for text in texts if text.strip()]
        missed = [name for name, is_followed in asked if not any(map(is_followed, texts))]
        value = float(not missed) if self.aggregate == "all" else (len(asked) - len(missed)) / len(asked)
        return ok(value, evidence=f"not followed: {', '.join(missed)}" if missed else None)

    def _asked(self, item: Mapping[str, Any]) -> list[tuple[str, Any]]:
        """What the item asks: per instruction its id, and a function that says whether a text follows it."""
        names, arguments = item.get(self.ids_field), item.get(self.kwargs_field)
        if not isinstance(names, list | tuple) or not names:
            raise Malformed(
                f"item field {self.ids_field!r}: missing, or no list; give a list of IFEval's instruction ids"
            )
        if not isinstance(arguments, list | tuple) or len(arguments) != len(names):
            raise Malformed(
                f"item field {self.kwargs_field!r}: give a list of {len(names)} objects, one per instruction"
            )
        return [
            (
                name,
                _bound(name, given, f"item field {self.ids_field!r}[{at}]", f"item field {self.kwargs_field!r}[{at}]"),
            )
            for at, (name, given) in enumerate(zip(names, arguments, strict=True))
        ]


def _bound(name: Any, given: Any, ids_place: str, kwargs_place: str) -> partial[bool]:
    """The check of an instruction with its arguments.

    Raises:
        Malformed: no such instruction, or arguments that are missing, unknown or of another kind.
    """
    instruction = INSTRUCTIONS.get(name) if isinstance(name, str) else None
    if instruction is None:
        raise Malformed(f"{ids_place}: {name!r} is no instruction of IFEval's; give one of its {len(INSTRUCTIONS)} ids")
    if not isinstance(given, Mapping):
        raise Malformed(f"{kwargs_place}: no object; give the arguments of {name}, {{}} for none")
    found = {str(key): value for key, value in given.items() if value is not None}
    for key, kind in instruction.arguments.items():
        if key not in found:
            raise Malformed(f"{kwargs_place}: {name} needs {key}; give {kind.value}")
        if not kind_holds(kind, found[key]):
            raise Malformed(f"{kwargs_place}: {key} of {name} is something else; give {kind.value}")
    if unknown := sorted(found.keys() - instruction.arguments.keys()):
        raise Malformed(f"{kwargs_place}: {name} has no argument {unknown[0]!r}; leave it out")
    return partial(instruction.is_followed, **found)


def _variants(text: str) -> list[str]:
    """The eight texts of the loose mode, each once, the completion first."""
    lines = text.split("\n")
    cut = [text, *("\n".join(part).strip() for part in (lines[1:], lines[:-1], lines[1:-1]))]
    return list(dict.fromkeys(variant for part in cut for variant in (part, part.replace("*", ""))))
