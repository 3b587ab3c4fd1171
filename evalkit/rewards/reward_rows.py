"""From a prompt and its completion to the token ids that a reward model reads. Files only, no torch.

1. Turns are rendered by the model's own chat template, once, with the completion as the assistant's turn. Text is
   taken as it stands: prompt and completion joined, any template in it is the caller's.
2. A text gets the special tokens that the tokenizer itself puts around one, unless they are written in it; a template
   writes its own. More than one BOS in front is no input the model was trained on: such a row is not scored.
3. A text ends in EOS, as trainers of reward models append it; turns end as the template ends them. `eos` overrides.
4. What is too long is not scored, or cut at its left and marked. A cut text is never scored as if it were whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from evalkit.engines.prompting import cut_left
from evalkit.engines.tokenizer import TokenizerFolder
from evalkit.errors import BadInput
from evalkit.protocol import ChatRenderer, Messages
from evalkit.protocol.spec import Message, Prompt

Overflow = Literal["skip", "truncate_left"]
USER, ASSISTANT = "qXuserXq", "qXassistantXq"
"""Contents by which the parts of a template are found."""


@dataclass(frozen=True, slots=True)
class RewardRow:
    """One completion to be scored."""

    row_id: str
    prompt: str | Messages
    """Text that the completion is appended to, or the turns before it."""
    completion: str


@dataclass(frozen=True, slots=True)
class RowTokens:
    """What the model is given for a row."""

    row_id: str
    ids: tuple[int, ...]
    """As they are scored; empty where the row is not."""
    codes: tuple[str, ...]
    """Codes of `FAULTS` that hold for the row."""
    why: str = ""
    """Why the row is not scored; empty where it is."""

    @property
    def truncated(self) -> bool:
        """Whether tokens were cut off."""
        return "SCORE.TRUNCATED" in self.codes


class RowEncoder:
    """Token ids of rows for one reward model.

    Args:
        tokenizer: the model's.
        eos_token_ids: ids that count as an end of sequence.
        max_length: most tokens of a row; None for no limit.
        overflow: what happens to a longer row.
        eos: True to end every row in EOS, False to append none, None for rule 3.
    """

    def __init__(
        self,
        tokenizer: TokenizerFolder,
        eos_token_ids: Sequence[int],
        max_length: int | None = None,
        overflow: Overflow = "skip",
        eos: bool | None = None,
    ) -> None:
        self._tokenizer = tokenizer
        self._bos = tokenizer.token_id(tokenizer.bos_token) if tokenizer.bos_token else None
        self._eos = tokenizer.token_id(tokenizer.eos_token) if tokenizer.eos_token else None
        self._ends = {*eos_token_ids, *([] if self._eos is None else [self._eos])}
        self._before, self._after = tokenizer.affixes()
        self._max_length, self._overflow, self._append_eos = max_length, overflow, eos
        template = tokenizer.chat_template()
        prompt = Prompt(
            messages=(Message(role="user", content="-"),), chat_template="server", add_generation_prompt=False
        )
        self._chat = ChatRenderer(template, prompt) if template else None
        self._opening, self._boundary = self._marks()
        self._boundary_is_special = any(token in self._boundary for token in tokenizer.special_tokens())

    def encode(self, row: RewardRow) -> RowTokens:
        """Tokens of a row, or why it has none.

        Raises:
            BadInput: turns, and the model has no chat template.
        """
        codes: list[str] = []
        if isinstance(row.prompt, str):
            ids = self._of_text(row.prompt + row.completion, codes)
        else:
            if self._chat is None:
                raise BadInput(
                    f"row {row.row_id}, field prompt: turns, and {self._tokenizer.folder} has no chat template; give "
                    "the text as the model was trained on it, or the model's own tokenizer_config.json"
                )
            if self._applied_before(row.prompt):
                why = "the chat template stands in the prompt already and would be applied twice"
                return RowTokens(row.row_id, (), ("SCORE.TEMPLATE_TWICE",), why)
            try:
                text = self._chat([*row.prompt, {"role": "assistant", "content": row.completion}], row.row_id)
            except BadInput as error:
                return RowTokens(row.row_id, (), ("SCORE.TEMPLATE_FAILS",), str(error))
            ids = self._of_turns(text, row.completion, codes)
        if self._eos is not None and ids and ids[-1] not in self._ends:
            codes.append("SCORE.EOS_MISSING")
        return self._checked(row.row_id, ids, codes)

    def other_ending(self, ids: Sequence[int]) -> tuple[int, ...] | None:
        """The same row with its last EOS taken off, or with one put on; None where the tokenizer has none."""
        if self._eos is None or not ids:
            return None
        return tuple(ids[:-1]) if ids[-1] in self._ends else (*ids, self._eos)

    def _of_text(self, text: str, codes: list[str]) -> list[int]:
        ids, before, after = self._tokenizer.encode(text), self._before, self._after
        if not ids:
            return []
        if ids[: len(before)] != before:
            ids = before + ids
        if after and ids[-len(after) :] != after and not (self._append_eos is False and after[-1] in self._ends):
            ids = ids + after
        if self._append_eos is not False and self._eos is not None and ids[-1] not in self._ends:
            ids.append(self._eos)
        if self._boundary and self._boundary not in text:
            codes.append("SCORE.TEMPLATE_MISSING")
        return ids

    def _of_turns(self, text: str, completion: str, codes: list[str]) -> list[int]:
        ids = self._tokenizer.encode(text)
        if self._append_eos and self._eos is not None and ids and ids[-1] not in self._ends:
            ids.append(self._eos)
        if self._bos is not None and self._bos in self._before and ids[:1] != [self._bos]:
            codes.append("SCORE.BOS_MISSING")
        if completion.strip() not in text:
            codes.append("SCORE.TEMPLATE_ALTERS")
        if any(mark and mark in completion for mark in (self._opening, self._boundary)):
            codes.append("SCORE.TEMPLATE_IN_COMPLETION")
        return ids

    def _checked(self, row_id: str, ids: list[int], codes: list[str]) -> RowTokens:
        if not ids:
            return RowTokens(row_id, (), ("SCORE.EMPTY",), "no token in it")
        bos = self._bos
        if bos is not None and bos not in self._ends and ids[:2] == [bos, bos]:
            why = f"begins with two {self._tokenizer.bos_token} (id {bos})"
            return RowTokens(row_id, (), ("SCORE.DOUBLE_BOS",), why)
        if self._max_length is not None and len(ids) > self._max_length:
            if self._overflow == "skip":
                why = f"{len(ids)} tokens where the model takes {self._max_length}"
                return RowTokens(row_id, (), ("SCORE.OVERFLOW",), why)
            ids = cut_left(ids, self._max_length, ids[0] == bos)
            codes.append("SCORE.TRUNCATED")
        return RowTokens(row_id, tuple(ids), tuple(codes))

    def _marks(self) -> tuple[str, str]:
        """What the template writes before a first user's turn, and between it and the answer; empty where unknown."""
        if self._chat is None:
            return "", ""
        turns = [{"role": "user", "content": USER}, {"role": "assistant", "content": ASSISTANT}]
        try:
            text = self._chat(turns, "of two plain turns")
        except BadInput:
            return "", ""
        opening, found, rest = text.partition(USER)
        boundary, answered, _ = rest.partition(ASSISTANT)
        bos = self._tokenizer.bos_token or ""
        return (opening.removeprefix(bos).strip(), boundary.strip()) if found and answered else ("", "")

    def _applied_before(self, turns: Messages) -> bool:
        """Whether a turn's content is a rendered conversation. Plain words count only where both marks are there."""
        mark = self._boundary
        return bool(mark) and any(
            mark in turn["content"]
            and (self._boundary_is_special or (bool(self._opening) and self._opening in turn["content"]))
            for turn in turns
        )
