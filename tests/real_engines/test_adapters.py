"""LoRA adapters: base and adapter are the model, in both engines."""

import json
import shutil
from pathlib import Path

import pytest

from tests.real_engines.support import CHECKPOINT, EAGER, Lab


@pytest.fixture(scope="module")
def adapter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An adapter as peft writes it, with weights that change the answers."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    torch.manual_seed(0)
    base = AutoModelForCausalLM.from_pretrained(CHECKPOINT, dtype=torch.float32)
    model = get_peft_model(base, LoraConfig(r=8, target_modules="all-linear", init_lora_weights=False))
    folder = tmp_path_factory.mktemp("adapter") / "checkpoint-10"
    model.save_pretrained(folder)
    (folder / "optimizer.pt").write_bytes(b"not to be read")
    return folder


def test_both_engines_run_the_adapter_on_its_base_and_record_both(lab: Lab, adapter: Path) -> None:
    base = lab.run("greedy", f"hf:{CHECKPOINT}", split="public")
    by_hf = lab.run("greedy", f"hf:{adapter}", split="public")
    by_vllm = lab.run("greedy", f"vllm:{adapter}@{CHECKPOINT}", *EAGER, split="public")
    assert (base["completion"] != by_hf["completion"]).mean() > 0.5
    assert (by_hf["completion"] == by_vllm["completion"]).mean() >= 0.98
    marks = [json.loads((run / "run.json").read_text())["fingerprint"] for run in lab.runs()]
    digests = {mark["model_digest"] for mark in marks if mark["reference"].split(":")[1].startswith(str(adapter))}
    assert len(digests) == 1
    (files,) = {json.dumps(mark["details"]["files"]) for mark in marks if mark["model_digest"] in digests}
    assert set(json.loads(files)) == {"base", "adapter"}


def test_an_adapter_beside_a_whole_model_is_refused(lab: Lab, adapter: Path, tmp_path: Path) -> None:
    both = Path(shutil.copytree(CHECKPOINT, tmp_path / "both"))
    shutil.copy(adapter / "adapter_config.json", both)
    done = lab.evalkit("run", "greedy@1", "--split", "smoke", "--model", f"hf:{both}")
    assert done.code == 2
    assert "holds a whole model and an adapter" in done.err
