"""What a run has to do: its address, and the (item, trial, seed) list minus what is done.

A run is addressed by everything that can change its completions: the generation digest, the chat template's digest,
the split's root, the model's digest, the engine with version and dtype, and the repeat. Its id is the beginning of
that address, so the same command finds the same run, and no other command does.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import orjson
import polars as pl

from evalkit.canonical import digest, short
from evalkit.engines import Fingerprint, Request
from evalkit.errors import BadInput, Refused
from evalkit.protocol import ItemTemplate, Lock, Renderer, request_seed
from evalkit.splits import Split


@dataclass(frozen=True, slots=True)
class Address:
    """The inputs that identify a run."""

    generation: str
    chat_template: str | None
    split_root: str
    model: str
    engine: str
    engine_version: str
    dtype: str | None
    repeat: int
    engine_args: Mapping[str, Any] = field(default_factory=dict)
    """Engine options that can change numbers; empty for most."""

    @property
    def digest(self) -> str:
        """Digest of all of it; without engine options as if there were no such field."""
        return digest("run", {key: value for key, value in asdict(self).items() if key != "engine_args" or value})


@dataclass(frozen=True, slots=True)
class Item:
    """One item, ready for templates."""

    item_id: str
    cluster_id: str
    fields: Mapping[str, Any]


class Items:
    """The items of a split, decoded one by one so that a large split stays small in memory."""

    def __init__(self, frame: pl.DataFrame) -> None:
        self.frame = frame if frame["item_id"].is_sorted() else frame.sort("item_id")
        self._row = {item_id: row for row, item_id in enumerate(self.frame["item_id"])}

    @property
    def ids(self) -> list[str]:
        """All item ids, sorted."""
        return list(self._row)

    def __len__(self) -> int:
        return self.frame.height

    def __iter__(self) -> Iterator[Item]:
        for start in range(0, self.frame.height, 1024):
            for row in self.frame.slice(start, 1024).iter_rows(named=True):
                yield _item(row)

    def __getitem__(self, item_id: str) -> Item:
        return _item(self.frame.row(self._row[item_id], named=True))


def _item(row: Mapping[str, Any]) -> Item:
    fields = {**orjson.loads(row["fields"]), "item_id": row["item_id"], "cluster_id": row["cluster_id"]}
    return Item(row["item_id"], row["cluster_id"], fields)


class Targets:
    """What a right answer says, for every item: the protocol's target and gold completion."""

    def __init__(self, lock: Lock) -> None:
        self._target = ItemTemplate(lock.spec.target, "target")
        self._gold = ItemTemplate(lock.spec.gold_completion, "gold_completion")

    def target(self, fields: Mapping[str, Any]) -> str:
        """The rendered target of one item."""
        return self._target(fields)

    def gold(self, items: Items) -> dict[str, str]:
        """The gold completion of every item."""
        return {item.item_id: self._gold({**item.fields, "target": self.target(item.fields)}) for item in items}


@dataclass(frozen=True, slots=True)
class Plan:
    """One run: protocol × split × model × repeat."""

    lock: Lock
    split: Split
    items: Items
    fingerprint: Fingerprint
    repeat: int
    address: Address
    digest: str
    """Of the address; the run's id is its beginning."""
    renderer: Renderer | None
    """None where nothing is rendered: completions that were recorded."""

    @property
    def run_id(self) -> str:
        """First 12 hex characters of the address digest."""
        return short(self.digest)

    @property
    def n_planned(self) -> int:
        """Samples of the whole run: items times trials."""
        return len(self.items) * self.lock.spec.sampling.n

    def sample_id(self, item_id: str, trial: int) -> str:
        """Id of one sample: derived from run, item and trial alone."""
        return hashlib.sha256(f"evalkit/sample\x00{self.digest}\x00{trial}\x00{item_id}".encode()).hexdigest()[:32]

    def seed(self, item_id: str, trial: int) -> int:
        """Seed of one request."""
        return request_seed(self.lock.spec.sampling.seed, self.repeat, item_id, trial)

    def requests(self, done: Collection[str]) -> Iterator[Request]:
        """The requests that are still owed, item by item."""
        for item in self.items:
            prompt, messages = None, None
            for trial in range(self.lock.spec.sampling.n):
                sample_id = self.sample_id(item.item_id, trial)
                if sample_id in done:
                    continue
                if prompt is None and messages is None and self.renderer is not None:
                    prompt, messages = self.renderer.prompt(item.fields)
                seed = self.seed(item.item_id, trial)
                yield Request(sample_id, item.item_id, trial, seed, prompt, messages, item.fields)


def check_templates(renderer: Renderer | None, targets: Targets, items: Items) -> None:
    """Render one item of every set of fields, so that an item without a field is found before the first request.

    Raises:
        BadInput: a template asks for a field that an item does not have.
    """
    seen: set[frozenset[str]] = set()
    for item in items:
        if (names := frozenset(item.fields)) not in seen:
            seen.add(names)
            targets.target(item.fields)
            if renderer is not None and renderer.text(item.fields) is None:
                renderer.messages(item.fields)


def check_runnable(lock: Lock, split: Split) -> None:
    """Refuse what `run` cannot do honestly.

    Raises:
        Refused: the protocol allows tools.
        BadInput: the split is empty.
    """
    allowed = [tool.name for tool in lock.spec.tools if tool.permission != "deny"]
    if allowed:
        raise Refused(
            f"{lock.id}: allows tools ({', '.join(allowed)}), and there is no tool loop to run them under; "
            "freeze a protocol without tools"
        )
    if not split.items.height:
        raise BadInput(f"split {split.name}: no items; build it with a size above 0")


def cluster_labels(frame: pl.DataFrame, key: str) -> pl.Series:
    """Cluster label of every item under the protocol's cluster key; the one place that decides it.

    Args:
        frame: an items table.
        key: `cluster_id`, `item_id`, or a field of the items.

    Raises:
        BadInput: an item lacks the field, or it is null there.
    """
    if key in ("cluster_id", "item_id"):
        return frame[key].alias("cluster")
    labels = []
    for item_id, text in zip(frame["item_id"], frame["fields"], strict=True):
        value = orjson.loads(text).get(key)
        if value is None:
            raise BadInput(
                f"item {item_id}, field {key}: null or absent where cluster_key of the protocol belongs; "
                "fill it in, or freeze another cluster_key"
            )
        labels.append(value if isinstance(value, str) else orjson.dumps(value).decode())
    return pl.Series("cluster", labels, pl.String)
