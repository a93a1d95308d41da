#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Trains the embedded model: vocabulary, then network. Goes on from its checkpoint.

    train.py build/model                    from nothing
    train.py build/model --steps 200        a first look
    train.py build/more --from appliance/embedded.gguf --steps 1500 --rate 0.3
                                            more tasks for a model that there is, in its vocabulary
"""
import argparse
import time
from itertools import count
from pathlib import Path
from random import Random

import gguf
import torch

import vocabulary
from network import Network, Shape
from tasks import DRILLS, TRAIN, draw

BATCH_TOKENS = 4096         # many small steps: what takes long to learn is to copy, not to know
POOL_BATCHES = 32           # so many batches are drawn at once and sorted by length
MATRIX_RATE, OTHER_RATE = 0.02, 3e-3
RATE_LAST, WARM_STEPS = 0.02, 100       # of these rates, at the end
DRILL_STEPS = 900           # nothing but drills for half of them, then fewer and fewer
SAY_EVERY = 50


def encode(words, transcript, context: int) -> tuple:
    """ids and targets: a target where the model speaks, -1 elsewhere; a turn ends with EOS.

    The text is encoded as a whole, as the appliance does; turns end at line ends or at the end, and
    no token spans a line end, so a turn's tokens are the same alone and in its text.
    """
    ids, targets = [words.bos_id()], []
    text = ""
    for client, said in transcript:
        text += client
        begin = len(words.encode(text)) + 1
        text += said
        ids = [words.bos_id()] + words.encode(text)
        targets += [-1] * (begin - 1 - len(targets)) + ids[begin:] + [words.eos_id()]
    return ids[:context], targets[:context]


def draw_pool(words, seed: int, context: int, drills: float) -> list:
    """POOL_BATCHES batches of transcripts of like length, in random order."""
    examples, tokens = [], 0
    choice = Random(f"pool/{seed}")
    for part in count():
        mix = DRILLS if choice.random() < drills else None
        for transcript in draw(TRAIN, f"{seed}/{part}", mix).transcripts:
            examples.append(encode(words, transcript, context))
            tokens += len(examples[-1][0])
        if tokens >= POOL_BATCHES * BATCH_TOKENS:
            break
    examples.sort(key=lambda example: len(example[0]))
    batches, batch = [], []
    for example in examples:
        if batch and len(example[0]) * (len(batch) + 1) > BATCH_TOKENS:
            batches.append(batch)
            batch = []
        batch.append(example)
    batches.append(batch)
    order = torch.randperm(len(batches), generator=torch.Generator().manual_seed(seed))
    return [pad(batches[i]) for i in order]


def pad(batch: list) -> tuple:
    length = max(len(ids) for ids, _ in batch)
    ids = torch.tensor([row + [0] * (length - len(row)) for row, _ in batch])
    return ids, torch.tensor([row + [-1] * (length - len(row)) for _, row in batch])


def rate_at(step: int, steps: int) -> float:
    """Of the full rate: a short rise, then a straight way down."""
    if step < WARM_STEPS:
        return (step + 1) / WARM_STEPS
    return 1 + (RATE_LAST - 1) * (step - WARM_STEPS) / max(1, steps - WARM_STEPS)


def drills_at(step: int) -> float:
    return max(0.0, min(1.0, 2 - 2 * step / DRILL_STEPS))


class Training:
    """Everything that a checkpoint holds."""

    def __init__(self, directory: Path, seed: int, shape: Shape):
        torch.manual_seed(seed)
        self.path, self.seed = directory / "checkpoint.pt", seed
        self.network = Network(shape)
        named = list(self.network.named_parameters())
        matrices = [p for name, p in named if p.dim() == 2 and "embd" not in name]
        others = [p for name, p in named if p.dim() != 2 or "embd" in name]
        self.optimizers = [
            torch.optim.Muon(matrices, lr=MATRIX_RATE, momentum=0.95, weight_decay=0.01),
            torch.optim.AdamW(others, lr=OTHER_RATE, betas=(0.9, 0.95), weight_decay=0.0)]
        self.step, self.pool, self.seconds = 0, 0, 0.0

    def load_model(self, path: Path) -> None:
        """The weights of a GGUF that export.py wrote. The optimizers begin anew."""
        tensors = {tensor.name: torch.tensor(tensor.data).float()
                   for tensor in gguf.GGUFReader(path).tensors}
        self.network.load_state_dict(tensors)

    def resume(self) -> None:
        if self.path.exists():
            saved = torch.load(self.path, weights_only=True)
            self.network.load_state_dict(saved["network"])
            for optimizer, state in zip(self.optimizers, saved["optimizers"]):
                optimizer.load_state_dict(state)
            self.step, self.pool, self.seconds = saved["step"], saved["pool"], saved["seconds"]

    def save(self) -> None:
        fresh = self.path.with_suffix(".new")
        torch.save({"network": self.network.state_dict(),
                    "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
                    "step": self.step, "pool": self.pool, "seconds": self.seconds}, fresh)
        fresh.replace(self.path)

    def take_step(self, ids, targets, rate: float) -> float:
        for optimizer, full in zip(self.optimizers, (MATRIX_RATE, OTHER_RATE)):
            for group in optimizer.param_groups:
                group["lr"] = full * rate
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = self.network.loss(ids, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        self.step += 1
        return float(loss.detach())


def run(training: Training, words, options) -> None:
    """Whole pools; a checkpoint after each, so that going on repeats nothing and skips nothing."""
    steps = options.steps
    losses, tokens, begin, before = [], 0, time.monotonic(), training.seconds
    while training.step < steps:
        drills = 0.0 if options.model else drills_at(training.step)
        for ids, targets in draw_pool(words, training.seed + training.pool, Shape.context, drills):
            rate = options.rate * rate_at(training.step, steps)
            losses.append(training.take_step(ids, targets, rate))
            tokens += ids.numel()
            training.seconds = before + time.monotonic() - begin
            if len(losses) == SAY_EVERY:
                speed = tokens / (time.monotonic() - begin)
                print(f"step {training.step}/{steps}  loss {sum(losses) / len(losses):.4f}  "
                      f"{speed:.0f} tokens/s  {training.seconds / 60:.1f} min", flush=True)
                losses = []
        training.pool += 1
        training.save()


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path, help="vocabulary and checkpoint")
    parser.add_argument("--steps", type=int, default=9900)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--from", dest="model", type=Path, help="a GGUF to go on from")
    parser.add_argument("--rate", type=float, default=1.0, help="factor of the learning rates")
    return parser.parse_args()


def main() -> None:
    options = parse()
    options.directory.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)        # steps this small are no faster with more
    training = Training(options.directory, options.seed, Shape())
    if options.model:
        training.load_model(options.model)
    training.resume()
    words = vocabulary.load(options.directory, options.model)
    parameters = sum(p.numel() for p in training.network.parameters())
    print(f"{parameters} parameters, {words.vocab_size()} pieces, at step {training.step}",
          flush=True)
    run(training, words, options)


if __name__ == "__main__":
    main()
