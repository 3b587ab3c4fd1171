"""A model's folder: what is in it, whether it may be loaded, and its digest. Files only: no code, no torch.

1. Weights are safetensors; a pickle could run code. Code in the folder (`*.py`, `auto_map`) is refused.
2. The digest covers configuration, weights and tokenizer. Nothing else in the folder is opened or hashed: optimizer,
   scheduler and random states of a trainer, logs, reports.
3. Of `generation_config.json` the end-of-sequence ids are taken, which say when the model is done. Its sampling knobs
   are the protocol's business.
4. A LoRA adapter is a model of its own: digests of the base and of the adapter.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalkit.canonical import digest
from evalkit.engines.tokenizer import TokenizerFolder
from evalkit.errors import BadInput, Refused

TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
)
INDEX = "model.safetensors.index.json"
ADAPTER_WEIGHTS = "adapter_model.safetensors"
STEP = re.compile(r"(?:^|[-_.])(?:global[-_]?)?(?:checkpoint|step|ckpt|iter)[-_]?([0-9]+)$", re.IGNORECASE)
NESTED = ("actor", "huggingface")
"""Where verl keeps the weights within a step."""
DTYPES = {"F32": "float32", "BF16": "bfloat16", "F16": "float16"}
HASHING_THREADS = 4


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A folder that may be loaded."""

    folder: Path
    """The model's folder, or the adapter's."""
    base: Path | None
    """The folder an adapter goes on top of; None for a whole model."""
    tokenizer: TokenizerFolder
    digest: str
    parts: Mapping[str, Mapping[str, str]]
    """`model`, or `base` and `adapter`: file name → SHA-256 of what enters the digest."""
    dtype: str
    """As the weights are stored: `float32`, `bfloat16`, `float16`, or what the configuration calls it."""
    eos_token_ids: tuple[int, ...]
    """Ids that end a completion; empty where nothing says."""
    room: int | None
    """Tokens the model was made for; None where the configuration does not say."""
    lora_rank: int | None
    """Of an adapter."""
    seen: tuple[tuple[str, int, int], ...]
    """Name, size and change time of the files, to notice a folder that changes while it is loaded."""

    @property
    def name(self) -> str:
        """Short name: the checkpoint's folder and the one above it."""
        folder = checkpoint_folder(self.folder)
        return f"{folder.parent.name}/{folder.name}" if folder.parent.name else folder.name

    @property
    def step(self) -> int | None:
        """Training step, where the folder's name ends in one (`checkpoint-300`, `global_step_40`)."""
        return step_of(checkpoint_folder(self.folder).name)

    @property
    def lineage(self) -> str | None:
        """Name of the training folder that a numbered checkpoint lies in."""
        return checkpoint_folder(self.folder).parent.name or None if self.step is not None else None

    def changed(self) -> bool:
        """Whether a file is another than the one that was hashed."""
        folders = [self.folder] if self.base is None else [self.folder, self.base]
        return _seen(folders, {name for name, _, _ in self.seen}) != self.seen


def step_of(name: str) -> int | None:
    """The training step that a folder's name ends in; None where it does not."""
    found = STEP.search(name)
    return int(found[1]) if found else None


def weights_folder(checkpoint: Path) -> Path:
    """Where a trainer put the model's files within a numbered checkpoint: in it, or deeper as verl does."""
    nested = checkpoint.joinpath(*NESTED)
    return nested if nested.is_dir() else checkpoint


def checkpoint_folder(weights: Path) -> Path:
    """The numbered checkpoint that a folder of weights belongs to: itself, or the one that verl nested it in."""
    return weights.parents[len(NESTED) - 1] if weights.parts[-len(NESTED) :] == NESTED else weights


def read_checkpoint(locator: str, root: Path, flag: str) -> Checkpoint:
    """The checkpoint at `PATH`, or the adapter of `ADAPTER@BASE`, checked and hashed.

    Args:
        locator: a folder; relative to the current one or to `root`. An adapter's base is the one after `@`, else the
            folder that its `adapter_config.json` names.
        root: the workspace.
        flag: what the user wrote, for messages.

    Raises:
        BadInput: no such folder, a file missing, cut short or unreadable.
        Refused: code in the folder, or weights that are not safetensors.
    """
    folder, base = _folders(locator, root, flag)
    if not (folder / "adapter_config.json").is_file():
        if base is not None:
            raise BadInput(f"{folder}: no adapter_config.json, so no adapter; give the model's folder without @BASE")
        return _whole(folder)
    if (folder / "config.json").is_file() and weight_files(folder):
        raise BadInput(f"{folder}: holds a whole model and an adapter; which is meant? move one to another folder")
    return _adapter(folder, base or _named_base(folder, root))


def is_complete(folder: Path) -> bool:
    """Whether a checkpoint that is being written is all there: what `read_checkpoint` would not refuse as missing."""
    try:
        if (folder / "adapter_config.json").is_file():
            read_object(folder / "adapter_config.json")
            _check_whole_file(folder / ADAPTER_WEIGHTS)
        else:
            read_object(folder / "config.json")
            whole_weights(folder)
            TokenizerFolder(folder)
    except Refused:
        return True  # it will not get better; loading says why
    except BadInput:
        return False
    return True


def _folders(locator: str, root: Path, flag: str) -> tuple[Path, Path | None]:
    path = _existing(locator, root)
    if path is None and "@" in locator:
        first, _, second = locator.rpartition("@")
        path, base = _existing(first, root), _existing(second, root)
        if path is not None and base is None:
            raise BadInput(f"{flag}: no folder {second} to put the adapter on; correct the path after @")
        if path is not None:
            return path, base
    if path is None:
        raise BadInput(f"{flag}: no such folder; give the folder of a checkpoint, with config.json and safetensors")
    return path, None


def _existing(text: str, root: Path) -> Path | None:
    return next((path for path in (Path(text), root / text) if text and path.is_dir()), None)


def _whole(folder: Path) -> Checkpoint:
    config = _checked_config(folder)
    weights = whole_weights(folder)
    names = ["config.json", *(path.name for path in weights), *_tokenizer_files(folder)]
    parts = {"model": _hashed(folder, names)}
    tokenizer = TokenizerFolder(folder)
    eos, said = _eos(folder, config, tokenizer)
    return Checkpoint(
        folder=folder,
        base=None,
        tokenizer=tokenizer,
        digest=digest("model", {"files": parts["model"], **said}),
        parts=parts,
        dtype=_dtype(config, weights),
        eos_token_ids=eos,
        room=_room(config),
        lora_rank=None,
        seen=_seen([folder], set(names)),
    )


def _adapter(folder: Path, base: Path) -> Checkpoint:
    refuse_code(folder)
    adapter = read_object(folder / "adapter_config.json")
    if adapter.get("peft_type") != "LORA":
        raise BadInput(f"{folder}: an adapter of kind {adapter.get('peft_type')}; LORA alone is supported: merge it")
    _check_whole_file(folder / ADAPTER_WEIGHTS)
    under = _whole(base)
    own = [ADAPTER_WEIGHTS, *_tokenizer_files(folder)]
    # Where the base lies says nothing about the adapter.
    settings = {key: value for key, value in adapter.items() if key not in ("base_model_name_or_path", "revision")}
    content = json.dumps(settings, sort_keys=True).encode()
    files = {"adapter_config.json": hashlib.sha256(content).hexdigest(), **_hashed(folder, own)}
    parts = {"base": under.parts["model"], "adapter": files}
    tokenizer = TokenizerFolder(folder) if (folder / "tokenizer.json").is_file() else under.tokenizer
    eos, said = _eos(base, _checked_config(base), tokenizer)
    return Checkpoint(
        folder=folder,
        base=base,
        tokenizer=tokenizer,
        digest=digest("model", {**parts, **said}),
        parts=parts,
        dtype=under.dtype,
        eos_token_ids=eos,
        room=under.room,
        lora_rank=int(adapter.get("r") or 0),
        seen=_seen([folder, base], {"adapter_config.json", *own, *under.parts["model"]}),
    )


def _named_base(folder: Path, root: Path) -> Path:
    """The base that the adapter names: a folder, or a model in the local cache of the hub."""
    named = str(read_object(folder / "adapter_config.json").get("base_model_name_or_path") or "")
    found = _existing(named, root) or _existing(named, folder) or _cached(named)
    if found is None:
        raise BadInput(
            f"{folder}, adapter_config.json, field base_model_name_or_path: {named or 'nothing'} is no folder here; "
            "name the base's folder after the adapter's: ADAPTER@BASE"
        )
    return found


def _cached(name: str) -> Path | None:
    """Folder of a hub model in the local cache; None where it is not there. Nothing is downloaded."""
    try:
        from huggingface_hub import snapshot_download
    except ModuleNotFoundError:
        return None
    try:
        return Path(snapshot_download(name, local_files_only=True))
    except (OSError, ValueError):
        return None


def _checked_config(folder: Path) -> dict[str, Any]:
    refuse_code(folder)
    path = folder / "config.json"
    if not path.is_file():
        raise BadInput(f"{folder}: no config.json; give the folder that save_pretrained wrote")
    return read_object(path)


def refuse_code(folder: Path) -> None:
    """Refuse a folder whose model would bring its own code.

    Raises:
        Refused: a `*.py` file, or `auto_map` in a configuration.
    """
    if code := sorted(path.name for path in folder.glob("*.py")):
        raise Refused(
            f"{folder}: holds code ({code[0]}), and a checkpoint's code is not run; move it away if the library has "
            "the architecture, else serve the model yourself and use openai:NAME@URL"
        )
    for name in ("config.json", "tokenizer_config.json"):
        path = folder / name
        if path.is_file() and "auto_map" in read_object(path):
            raise Refused(
                f"{path}, field auto_map: asks for code of the model's own, which is not run; remove the field if the "
                "library has the architecture, else serve the model yourself and use openai:NAME@URL"
            )


def weight_files(folder: Path) -> list[Path]:
    """The weights: what the index lists, else every safetensors file that is no adapter's; may be missing yet."""
    index = folder / INDEX
    if index.is_file():
        named = read_object(index).get("weight_map")
        if not isinstance(named, dict) or not named:
            raise BadInput(f"{index}, field weight_map: no object of tensors; copy the checkpoint again")
        return [folder / name for name in sorted(set(map(str, named.values())))]
    return sorted(path for path in folder.glob("*.safetensors") if path.name != ADAPTER_WEIGHTS)


def whole_weights(folder: Path) -> list[Path]:
    """The weights, all there and none cut short.

    Raises:
        BadInput: a file is missing or cut short.
        Refused: there are weights, and they are pickles.
    """
    weights = weight_files(folder)
    if not weights:
        pickles = sorted(path.name for path in folder.glob("*.bin") if path.name != "training_args.bin")
        if pickles:
            raise Refused(
                f"{folder}: weights in {pickles[0]}, a pickle, which can run code; save them as safetensors "
                "(save_pretrained does)"
            )
        raise BadInput(f"{folder}: no weights (*.safetensors); give the folder that save_pretrained wrote")
    for path in weights:
        _check_whole_file(path)
    return weights


def _check_whole_file(path: Path) -> None:
    if not path.is_file():
        raise BadInput(f"{path}: not there; copy the checkpoint again, or wait until it is written")
    size, stated = path.stat().st_size, _stated_size(path)
    if size != stated:
        raise BadInput(
            f"{path}: {size} bytes where its header says {stated or 'nothing readable'}; copy it again, or wait until "
            "it is written"
        )


def _header(path: Path) -> dict[str, Any]:
    """Header of a safetensors file; empty where it cannot be read."""
    try:
        with open(path, "rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            if length > 100_000_000:
                return {}
            header = json.loads(file.read(length))
        header["__header__"] = length
        return header if isinstance(header, dict) else {}
    except (OSError, struct.error, ValueError, TypeError):
        return {}


def _stated_size(path: Path) -> int | None:
    header = _header(path)
    if not header:
        return None
    length = header.pop("__header__")
    ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
    return 8 + int(length) + max(ends, default=0)


def _tokenizer_files(folder: Path) -> Iterator[str]:
    return (name for name in TOKENIZER_FILES if (folder / name).is_file())


def _hashed(folder: Path, names: Sequence[str]) -> dict[str, str]:
    def one(name: str) -> str:
        with open(folder / name, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    try:
        with ThreadPoolExecutor(HASHING_THREADS) as threads:
            return dict(zip(names, threads.map(one, names), strict=True))
    except OSError as error:
        raise BadInput(f"{folder}: {error.strerror}: {error.filename}; make it readable") from None


def _seen(folders: Sequence[Path], names: set[str]) -> tuple[tuple[str, int, int], ...]:
    found = [folder / name for folder in folders for name in sorted(names) if (folder / name).is_file()]
    return tuple((path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in found)


def _eos(
    folder: Path, config: Mapping[str, Any], tokenizer: TokenizerFolder
) -> tuple[tuple[int, ...], dict[str, list[int]]]:
    """Ids that end a completion, and those that the hashed files do not tell, for the digest.

    The tokenizer's EOS, and what `generation_config.json` lists, or where that is not there the configuration: the
    rule of vLLM's server.
    """
    path = folder / "generation_config.json"
    told = {*_ids(config.get("eos_token_id"))}
    own = tokenizer.token_id(tokenizer.eos_token) if tokenizer.eos_token else None
    listed = {*_ids(read_object(path).get("eos_token_id"))} if path.is_file() else told
    ids = tuple(sorted({*listed, *([] if own is None else [own])}))
    untold = sorted(set(ids) - told - {own})
    return ids, {"eos_token_ids": list(ids)} if untold else {}


def _ids(value: Any) -> list[int]:
    values = value if isinstance(value, list) else [value]
    return [one for one in values if isinstance(one, int) and not isinstance(one, bool)]


def _text_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    inner = config.get("text_config")
    return inner if isinstance(inner, dict) else config


def _dtype(config: Mapping[str, Any], weights: Sequence[Path]) -> str:
    for source in (config, _text_config(config)):
        for field in ("dtype", "torch_dtype"):
            if isinstance(source.get(field), str) and source[field] != "auto":
                return str(source[field])
    entries = [entry for name, entry in _header(weights[0]).items() if not name.startswith("__")]
    return DTYPES.get(str(entries[0].get("dtype")) if entries else "", "float32")


def _room(config: Mapping[str, Any]) -> int | None:
    found = _text_config(config).get("max_position_embeddings")
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def read_object(path: Path) -> dict[str, Any]:
    """A JSON object of a model's folder.

    Raises:
        BadInput: unreadable, or no object.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}; make it readable") from None
    except ValueError as error:
        raise BadInput(f"{path}: not JSON: {error}; copy the file again from the model") from None
    if not isinstance(content, dict):
        raise BadInput(f"{path}: not a JSON object; copy the file again from the model")
    return content
