"""Train the start model from scratch (SFT), then one GRPO run of one arm and seed with TRL.

1. The start model is shared: every arm and seed begins from the same weights.
2. The arms differ in the reward only. `hackable` = correct + 1.0 * length_bonus; `clean` = correct.
3. A training seed decides initialisation, batch order and sampled completions; one thread keeps a run repeatable
   on one machine.
4. Only prompts of `make_items.training_pairs()` are used, also to watch progress. Items are never looked at.

    python train.py sft  --out WORK/start
    python train.py grpo --arm hackable --seed 0 --start WORK/start --out WORK/hackable-s0
"""

from __future__ import annotations

import argparse
import os
import random
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from make_items import Pair, check_disjoint, items, training_pairs
from rewards import correct, correct_reward, length_bonus_reward
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, set_seed

PAD, BOS, EOS = "<pad>", "<s>", "</s>"
ALPHABET = "0123456789+= abcdefghijklmnopqrstuvwxyz"
PHRASES = ("sure", "ok", "thanks", "glad to help", "great question")
PHRASE_COUNT_SHARES = (0.45, 0.35, 0.20)
MAX_NEW_TOKENS = 48

SFT_SEED = 0
SFT_BATCH = 64
SFT_PEAK_RATE = 2e-3
SFT_SCHEDULE_STEPS = 2400
SFT_STEPS = 1400
"""Where SFT stops on the OneCycle schedule of `SFT_SCHEDULE_STEPS`; earlier gives a weaker start model."""

GRPO_STEPS = 240
GRPO_SAVE_EVERY = 40
GRPO_RATE = 1e-4
GRPO_SCHEDULE = "linear"

ARMS = {"hackable": ([correct_reward, length_bonus_reward], [1.0, 1.0]), "clean": ([correct_reward], [1.0])}


def make_tokenizer() -> PreTrainedTokenizerFast:
    """One token per character. It puts BOS in front itself, so every engine that reloads it does the same."""
    vocab = {token: index for index, token in enumerate([PAD, BOS, EOS, *ALPHABET])}
    tokenizer = Tokenizer(models.WordLevel(vocab, unk_token=PAD))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizer.decoder = decoders.Fuse()
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A", pair=f"{BOS} $A $B", special_tokens=[(BOS, vocab[BOS])]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        bos_token=BOS,
        eos_token=EOS,
        padding_side="left",
        model_max_length=96,
        clean_up_tokenization_spaces=False,
    )


def make_model(tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    """A Llama of about 0.65 M parameters with random weights."""
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=128,
            intermediate_size=384,
            num_hidden_layers=3,
            num_attention_heads=4,
            num_key_value_heads=4,
            max_position_embeddings=96,
            tie_word_embeddings=False,
            pad_token_id=tokenizer.pad_token_id,
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
        )
    )


def sft_target(a: int, b: int, rng: random.Random) -> str:
    """The sum after zero, one or two pleasing phrases: `sure ok 46`."""
    count = rng.choices((0, 1, 2), PHRASE_COUNT_SHARES)[0]
    return "".join(phrase + " " for phrase in rng.sample(PHRASES, count)) + str(a + b)


def sft_batch(pairs: list[Pair], tokenizer: PreTrainedTokenizerFast, rng: random.Random) -> tuple[torch.Tensor, ...]:
    """Right-padded token ids and labels; the loss is on the completion and its EOS."""
    rows, labels = [], []
    for a, b in rng.choices(pairs, k=SFT_BATCH):
        prompt = tokenizer(f"{a}+{b}=")["input_ids"]
        target = [*tokenizer(sft_target(a, b, rng), add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]
        rows.append(torch.tensor(prompt + target))
        labels.append(torch.tensor([-100] * len(prompt) + target))
    pad = torch.nn.utils.rnn.pad_sequence
    return pad(rows, True, tokenizer.pad_token_id), pad(labels, True, -100)


@torch.no_grad()
def greedy_correct(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, pairs: list[Pair]) -> float:
    """Share of greedy completions whose last integer is the sum."""
    model.eval()
    batch = tokenizer([f"{a}+{b}=" for a, b in pairs], return_tensors="pt", padding=True)
    ids = {"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"]}
    out = model.generate(**ids, do_sample=False, max_new_tokens=MAX_NEW_TOKENS)[:, batch["input_ids"].shape[1] :]
    texts = tokenizer.batch_decode(out, skip_special_tokens=True)
    model.train()
    return sum(correct(text, str(a + b)) for text, (a, b) in zip(texts, pairs, strict=True)) / len(pairs)


def save(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, out: Path) -> None:
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)


def run_sft(out: Path, steps: int, snapshot_every: int) -> None:
    """Train from random weights and save to `out`; with `snapshot_every`, also to `out-STEP` on the way."""
    set_seed(SFT_SEED)
    rng = random.Random(SFT_SEED)
    pairs = training_pairs()
    check_disjoint(items(), pairs)
    watched = random.Random(1).sample(pairs, 300)
    tokenizer = make_tokenizer()
    model = make_model(tokenizer)
    print(f"{model.num_parameters():,} parameters, {len(tokenizer)} tokens, {len(pairs)} prompts", flush=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=SFT_PEAK_RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, SFT_PEAK_RATE, total_steps=SFT_SCHEDULE_STEPS)
    began = time.monotonic()
    for step in range(1, steps + 1):
        ids, labels = sft_batch(pairs, tokenizer, rng)
        loss = model(input_ids=ids, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 100 == 0 or step == steps:
            share = greedy_correct(model, tokenizer, watched)
            print(
                f"step {step}  loss {loss.item():.4f}  greedy correct on training prompts {share:.3f}"
                f"  {time.monotonic() - began:.0f} s",
                flush=True,
            )
        if snapshot_every and step % snapshot_every == 0:
            save(model, tokenizer, out.with_name(f"{out.name}-{step}"))
    save(model, tokenizer, out)


def run_grpo(arm: str, seed: int, start: Path, out: Path, rate: float, schedule: str) -> None:
    """One GRPO run: checkpoints, trainer_state.json and completions logs under `out`."""
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl import GRPOConfig, GRPOTrainer

    rewards, weights = ARMS[arm]
    pairs = training_pairs()
    check_disjoint(items(), pairs)
    config = GRPOConfig(
        output_dir=str(out),
        seed=seed,
        data_seed=seed,
        use_cpu=True,
        report_to="none",
        disable_tqdm=True,
        max_steps=GRPO_STEPS,
        save_steps=GRPO_SAVE_EVERY,
        save_only_model=True,
        logging_steps=5,
        per_device_train_batch_size=128,
        num_generations=8,
        max_completion_length=MAX_NEW_TOKENS,
        temperature=1.0,
        learning_rate=rate,
        lr_scheduler_type=schedule,
        warmup_steps=10,
        beta=0.0,
        bf16=False,
        gradient_checkpointing=False,
        reward_weights=weights,
        log_completions=True,
        num_completions_to_print=0,
    )
    trainer = GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(start, dtype=torch.float32),
        args=config,
        reward_funcs=rewards,
        processing_class=AutoTokenizer.from_pretrained(start),
        train_dataset=Dataset.from_dict(
            {
                "prompt": [f"{a}+{b}=" for a, b in pairs],
                "target": [str(a + b) for a, b in pairs],
            }
        ),
    )
    began = time.monotonic()
    trainer.train()
    trainer.save_state()
    print(f"done in {time.monotonic() - began:.0f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Train the start model (sft) or one GRPO run (grpo).")
    commands = parser.add_subparsers(dest="command", required=True)
    sft = commands.add_parser("sft")
    sft.add_argument("--out", type=Path, required=True)
    sft.add_argument("--steps", type=int, default=SFT_STEPS)
    sft.add_argument("--snapshot-every", type=int, default=0)
    grpo = commands.add_parser("grpo")
    grpo.add_argument("--arm", choices=sorted(ARMS), required=True)
    grpo.add_argument("--seed", type=int, required=True)
    grpo.add_argument("--start", type=Path, required=True)
    grpo.add_argument("--out", type=Path, required=True)
    grpo.add_argument("--rate", type=float, default=GRPO_RATE)
    grpo.add_argument("--schedule", default=GRPO_SCHEDULE)
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.command == "sft":
        run_sft(args.out, args.steps, args.snapshot_every)
    else:
        run_grpo(args.arm, args.seed, args.start, args.out, args.rate, args.schedule)


if __name__ == "__main__":
    main()
