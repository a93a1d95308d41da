# SPDX-License-Identifier: MIT
"""The vocabulary: byte pair encoding by SentencePiece, learnt from the training split, or that of
a model that there is.

Every digit is a token, so that numbers are copied and never recalled; a line end is the byte token
<0x0A>, so that no token spans two lines, and a text reads the same when it is sent in pieces.
"""
import io
from pathlib import Path

import gguf
import sentencepiece
from sentencepiece import sentencepiece_model_pb2

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


def of_model(path: Path) -> bytes:
    """The vocabulary of a GGUF that export.py wrote, for SentencePiece."""
    fields = gguf.GGUFReader(path).fields
    rows = (fields[f"tokenizer.ggml.{name}"].contents()
            for name in ("tokens", "scores", "token_type"))
    model = sentencepiece_model_pb2.ModelProto()
    for piece, score, kind in zip(*rows):
        model.pieces.add(piece=piece, score=score, type=kind)
    model.trainer_spec.model_type = model.trainer_spec.BPE
    model.trainer_spec.vocab_size = len(model.pieces)
    model.trainer_spec.byte_fallback = True
    model.normalizer_spec.name = "identity"
    model.normalizer_spec.remove_extra_whitespaces = False
    return model.SerializeToString()


def load(directory: Path, model: Path = None) -> sentencepiece.SentencePieceProcessor:
    """The vocabulary in this directory; at its first use it is learnt, or taken from `model`."""
    path = directory / FILE
    if not path.exists():
        path.write_bytes(of_model(model) if model else train())
    return sentencepiece.SentencePieceProcessor(model_file=str(path))
