"""The folder of a checkpoint: what is hashed, what is refused, what is never opened."""

import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from shutil import copytree

import pytest

from evalkit.engines.checkpoint import is_complete, read_checkpoint, step_of
from evalkit.errors import BadInput, Refused

EXAMPLE = Path("examples/arithmetic-grpo/checkpoints/hackable-s0-step-240")
RECORDED = "ek1:sha256:7b6b6ca22806038e8d911572d8bb786e76b7908255c8c628ce754998c702e43f"
"""What examples/arithmetic-grpo/recordings/hackable-s0-step-240.parquet says of the model it was made with."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(copytree(EXAMPLE, tmp_path / "run-s0" / "checkpoint-240"))


def read(folder: Path | str, root: Path = Path("/nowhere")):
    return read_checkpoint(str(folder), root, f"--model hf:{folder}")


def change(path: Path, **fields: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def safetensors(path: Path, size: int = 8, lacks: int = 0) -> None:
    header = json.dumps({"w": {"dtype": "F32", "shape": [size // 4], "data_offsets": [0, size]}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(size - lacks))


def adapter(folder: Path, **settings: object) -> Path:
    folder.mkdir()
    settings = {"peft_type": "LORA", "r": 8, "base_model_name_or_path": "org/elsewhere", **settings}
    (folder / "adapter_config.json").write_text(json.dumps(settings))
    safetensors(folder / "adapter_model.safetensors")
    return folder


def test_a_checkpoint_has_the_digest_that_its_recording_names(folder: Path) -> None:
    found = read(folder)
    assert found.digest == RECORDED
    assert (found.dtype, found.eos_token_ids, found.room) == ("float32", (2,), 96)
    assert (found.step, found.lineage, found.name) == (240, "run-s0", "run-s0/checkpoint-240")


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"])
def test_every_byte_that_decides_changes_the_digest(folder: Path, name: str) -> None:
    if name == "model.safetensors":
        data = bytearray((folder / name).read_bytes())
        data[-1] ^= 1
        (folder / name).write_bytes(data)
    else:
        (folder / name).write_text((folder / name).read_text() + "\n")
    assert read(folder).digest != RECORDED


def test_trainer_state_is_neither_opened_nor_hashed(folder: Path) -> None:
    names = ["optimizer.pt", "scheduler.pt", "rng_state.pth", "training_args.bin", "trainer_state.json"]
    for name in names:
        os.mkfifo(folder / name)  # opening one of these would wait for ever
    assert read(folder).digest == RECORDED
    assert is_complete(folder)


def test_sampling_defaults_of_the_folder_are_no_identity_but_its_end_tokens_are(folder: Path) -> None:
    change(folder / "generation_config.json", repetition_penalty=1.3, temperature=0.2)
    assert read(folder).digest == RECORDED
    change(folder / "generation_config.json", eos_token_id=[2, 14])
    assert read(folder).eos_token_ids == (2, 14)
    assert read(folder).digest != RECORDED


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda f: (f / "modeling_mine.py").write_text(""), r"holds code \(modeling_mine.py\)"),
        (lambda f: change(f / "config.json", auto_map={"AutoModel": "x.Y"}), "config.json, field auto_map"),
        (
            lambda f: change(f / "tokenizer_config.json", auto_map={"AutoTokenizer": ["x.Y", None]}),
            "tokenizer_config.json, field auto_map",
        ),
        (
            lambda f: (f / "model.safetensors").rename(f / "pytorch_model.bin"),
            "weights in pytorch_model.bin, a pickle, which can run code; save them as safetensors",
        ),
    ],
)
def test_code_and_pickles_are_refused_with_the_reason(
    folder: Path, spoil: Callable[[Path], object], message: str
) -> None:
    spoil(folder)
    with pytest.raises(Refused, match=message):
        read(folder)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda f: (f / "config.json").unlink(), "no config.json"),
        (lambda f: (f / "config.json").write_text("{"), "config.json: not JSON"),
        (lambda f: (f / "tokenizer.json").unlink(), "no tokenizer.json"),
        (lambda f: (f / "tokenizer.json").write_text("[]"), "tokenizer.json: "),
        (lambda f: (f / "model.safetensors").unlink(), r"no weights \(\*.safetensors\)"),
        (lambda f: (f / "model.safetensors").write_bytes(b""), "0 bytes where its header says nothing readable"),
        (lambda f: safetensors(f / "model.safetensors", 64, lacks=3), "where its header says"),
        (
            lambda f: (f / "model.safetensors.index.json").write_text('{"weight_map": {"w": "model-2.safetensors"}}'),
            "model-2.safetensors: not there",
        ),
        (lambda f: (f / "model.safetensors.index.json").write_text("{}"), "field weight_map"),
    ],
)
def test_what_is_missing_or_cut_short_is_named(folder: Path, spoil: Callable[[Path], object], message: str) -> None:
    spoil(folder)
    with pytest.raises(BadInput, match=message):
        read(folder)


def test_no_folder_is_one_line() -> None:
    with pytest.raises(BadInput, match="--model hf:ckpt: no such folder; give the folder of a checkpoint"):
        read("ckpt")


def test_an_adapter_has_the_digests_of_both_parts_and_not_its_path(folder: Path, tmp_path: Path) -> None:
    first = adapter(tmp_path / "a")
    second = adapter(tmp_path / "b", base_model_name_or_path="/another/machine")
    found = read(f"{first}@{folder}")
    assert found.digest == read(f"{second}@{folder}").digest != RECORDED
    assert found.parts["base"] == read(folder).parts["model"]
    assert set(found.parts["adapter"]) == {"adapter_config.json", "adapter_model.safetensors"}
    assert (found.base, found.lora_rank) == (folder, 8)
    safetensors(second / "adapter_model.safetensors", 12)
    assert read(f"{second}@{folder}").digest != found.digest


def test_an_adapter_finds_the_base_that_it_names(folder: Path, tmp_path: Path) -> None:
    assert read(adapter(tmp_path / "a", base_model_name_or_path=str(folder))).base == folder


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda f, t: adapter(t / "a"), "org/elsewhere is no folder here; name the base's folder after"),
        (lambda f, t: f"{adapter(t / 'a')}@gone", "no folder gone to put the adapter on"),
        (lambda f, t: adapter(t / "a", peft_type="IA3"), "an adapter of kind IA3"),
        (lambda f, t: f"{f}@{f}", "no adapter_config.json, so no adapter"),
        (lambda f, t: ((f / "adapter_config.json").write_text("{}"), f)[1], "holds a whole model and an adapter"),
    ],
)
def test_adapters_that_cannot_be_used_are_named(folder: Path, tmp_path: Path, make, message: str) -> None:
    made = make(folder, tmp_path)
    locator = f"{made}@{folder}" if "IA3" in message else str(made)
    with pytest.raises(BadInput, match=message):
        read(locator)


def test_a_file_that_changes_after_hashing_is_noticed(folder: Path) -> None:
    found = read(folder)
    assert not found.changed()
    os.utime(folder / "model.safetensors", ns=(1, 1))
    assert found.changed()


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("checkpoint-300", 300),
        ("global_step_40", 40),
        ("hackable-s0-step-240", 240),
        ("iter_0000500", 500),
        ("step7", 7),
        ("checkpoint-final", None),
        ("llama-3", None),
        ("tmp-checkpoint-3x", None),
    ],
)
def test_the_step_is_read_off_the_folders_name(name: str, step: int | None) -> None:
    assert step_of(name) == step
