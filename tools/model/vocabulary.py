# SPDX-License-Identifier: MIT
"""The vocabulary: byte pair encoding by SentencePiece, learnt from the training split.

Every digit is a token, so that numbers are copied and never recalled; a line end is the byte token
<0x0A>, so that no token spans two lines, and a text reads the same when it is sent in pieces.
"""
import io
from pathlib import Path

import sentencepiece

from tasks import TRAIN, draw

PIECES = 1024
TASKS = 6000
FILE = "vocabulary.model"


def lines():
    for seed in range(TASKS):
        for transcript in draw(TRAIN, f"vocabulary/{seed}").transcripts:
            text = "".join(client + said for client, said in transcript)
            yield from (line for line in text.split("\n") if line)


def train() -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=lines(), model_writer=model, model_type="bpe", vocab_size=PIECES,
        byte_fallback=True, split_digits=True, normalization_rule_name="identity",
        remove_extra_whitespaces=False, character_coverage=1.0, num_threads=1,
        max_sentencepiece_length=12, minloglevel=1)
    return model.getvalue()


def load(directory: Path) -> sentencepiece.SentencePieceProcessor:
    """The vocabulary in this directory, made at its first use."""
    path = directory / FILE
    if not path.exists():
        path.write_bytes(train())
    return sentencepiece.SentencePieceProcessor(model_file=str(path))
