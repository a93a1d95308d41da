#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes a checkpoint as GGUF: weights in F16, norms in F32, vocabulary as SentencePiece has it.

    export.py build/model appliance/embedded.gguf
"""
import argparse
from pathlib import Path

import gguf
import torch

import vocabulary
from network import Shape

NAME = "agentix-agent"


def write_shape(out: gguf.GGUFWriter, shape: Shape) -> None:
    out.add_name(NAME)
    out.add_license("MIT")
    out.add_context_length(shape.context)
    out.add_embedding_length(shape.width)
    out.add_block_count(shape.layers)
    out.add_feed_forward_length(shape.ffn)
    out.add_head_count(shape.heads)
    out.add_head_count_kv(shape.kv_heads)
    out.add_rope_dimension_count(shape.head)
    out.add_rope_freq_base(shape.rope_base)
    out.add_layer_norm_rms_eps(shape.norm_epsilon)
    out.add_vocab_size(shape.vocab)
    out.add_file_type(gguf.LlamaFileType.MOSTLY_F16)


def kind_of(words, i: int) -> gguf.TokenType:
    if words.is_unknown(i):
        return gguf.TokenType.UNKNOWN
    if words.is_control(i):
        return gguf.TokenType.CONTROL
    return gguf.TokenType.BYTE if words.is_byte(i) else gguf.TokenType.NORMAL


def write_vocabulary(out: gguf.GGUFWriter, words) -> None:
    ids = range(words.vocab_size())
    out.add_tokenizer_model("llama")
    out.add_token_list([words.id_to_piece(i).encode() for i in ids])
    out.add_token_scores([words.get_score(i) for i in ids])
    out.add_token_types([kind_of(words, i) for i in ids])
    out.add_bos_token_id(words.bos_id())
    out.add_eos_token_id(words.eos_id())
    out.add_unk_token_id(words.unk_id())
    out.add_add_bos_token(True)
    out.add_add_space_prefix(True)


def write_tensors(out: gguf.GGUFWriter, network: dict) -> None:
    for name, tensor in network.items():
        wide = torch.float16 if tensor.dim() == 2 else torch.float32
        out.add_tensor(name, tensor.to(wide).numpy())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path, help="where train.py put vocabulary and checkpoint")
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    checkpoint = torch.load(options.directory / "checkpoint.pt", weights_only=True)
    out = gguf.GGUFWriter(options.out, "llama")
    write_shape(out, Shape())
    write_vocabulary(out, vocabulary.load(options.directory))
    write_tensors(out, checkpoint["network"])
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()
    print(f"{options.out}: {options.out.stat().st_size} bytes, step {checkpoint['step']}, "
          f"{checkpoint['seconds'] / 60:.0f} minutes of training")


if __name__ == "__main__":
    main()
