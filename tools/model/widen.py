#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Puts a trained model into a larger shape: the same answers, at the speed of a larger model.

    widen.py appliance/embedded.gguf build/model-wide.gguf [--layers 12] [--width 768] [--ffn 2048]

What depends on texts (drafts, what is cached) wants a trained model; what depends on memory wants a
large one. Weights that are added are random, and what they bring is multiplied by zero:

- channels beyond the model's own are zero in the embedding, and rows of attn_output and ffn_down
  that would write them are zero. A norm divides by the root of the mean of squares, which the new
  channels make smaller: its weights and its epsilon make up for that.
- heads beyond the model's own, and channels of the ffn, are columns of zeros of those two.
- layers beyond the model's own add zero: both their outputs are zero.

Matrices become Q8_0, the embedding F16. Head size and vocabulary stay as they are. Rounding to Q8_0
changes some answers: tools/model/eval --model says how many.
"""
import argparse
from pathlib import Path

import gguf
import numpy

Q8_BLOCK = 32


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=768, help="channels")
    parser.add_argument("--ffn", type=int, default=2048)
    return parser.parse_args()


class Wider:
    """The model, and the shape that it is put into."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.file = gguf.GGUFReader(options.model)
        self.tensors = {t.name: t.data.astype(numpy.float32) for t in self.file.tensors}
        self.random = numpy.random.default_rng(1)
        self.layers, self.width, self.ffn = options.layers, options.width, options.ffn
        self.own_width = self.number("embedding_length")
        head = self.number("rope.dimension_count")
        group = self.number("attention.head_count") // self.number("attention.head_count_kv")
        self.heads = options.width // head
        self.kv_heads = self.heads // group
        if (self.own_width > self.width or self.number("block_count") > self.layers
                or self.number("feed_forward_length") > self.ffn
                or self.width % (head * group) != 0 or self.ffn % Q8_BLOCK != 0):
            raise SystemExit("a shape that the model does not fit into, or no multiple of a block")
        self.sizes = {"attn_q": (self.width, self.width), "attn_output": (self.width, self.width),
                      "attn_k": (self.kv_heads * head, self.width),
                      "attn_v": (self.kv_heads * head, self.width),
                      "ffn_gate": (self.ffn, self.width), "ffn_up": (self.ffn, self.width),
                      "ffn_down": (self.width, self.ffn)}

    def value(self, key: str):
        return self.file.fields[key].contents()

    def number(self, key: str):
        return self.value("llama." + key)

    def norm(self, name: str) -> numpy.ndarray:
        wide = numpy.ones(self.width, numpy.float32)
        if name in self.tensors:
            less = numpy.sqrt(self.own_width / self.width)
            wide[:self.own_width] = self.tensors[name] * less
        return wide

    def matrix(self, layer: int, part: str) -> numpy.ndarray:
        """What reads gets random weights beside its own, what writes zeros."""
        rows, columns = self.sizes[part]
        wide = self.random.normal(0, columns ** -0.5, (rows, columns)).astype(numpy.float32)
        if part in ("attn_output", "ffn_down"):
            wide[:] = 0
        own = self.tensors.get(f"blk.{layer}.{part}.weight")
        if own is not None:
            wide[:own.shape[0], :own.shape[1]] = own
        return wide

    def embedding(self) -> numpy.ndarray:
        own = self.tensors["token_embd.weight"]
        return numpy.pad(own, ((0, 0), (0, self.width - self.own_width)))


def write_keys(out: gguf.GGUFWriter, wider: Wider) -> None:
    """Those of the model, but for the shape."""
    changed = {
        "general.name": wider.value("general.name") + "-wide",
        "general.file_type": gguf.LlamaFileType.MOSTLY_Q8_0.value,
        "llama.embedding_length": wider.width,
        "llama.block_count": wider.layers,
        "llama.feed_forward_length": wider.ffn,
        "llama.attention.head_count": wider.heads,
        "llama.attention.head_count_kv": wider.kv_heads,
        "llama.attention.layer_norm_rms_epsilon":
            wider.number("attention.layer_norm_rms_epsilon") * wider.own_width / wider.width,
    }
    for key, field in wider.file.fields.items():
        if key.startswith("GGUF.") or key == "general.architecture":    # the writer's own
            continue
        kinds = field.types
        out.add_key_value(key, changed.get(key, field.contents()), kinds[0],
                          sub_type=kinds[-1] if len(kinds) > 1 else None)


def add_quantized(out: gguf.GGUFWriter, name: str, matrix: numpy.ndarray) -> None:
    kind = gguf.GGMLQuantizationType.Q8_0
    out.add_tensor(name, gguf.quants.quantize(matrix, kind), raw_dtype=kind)


def write_tensors(out: gguf.GGUFWriter, wider: Wider) -> None:
    out.add_tensor("token_embd.weight", wider.embedding().astype(numpy.float16))
    for layer in range(wider.layers):
        for part in ("attn_norm", "ffn_norm"):
            name = f"blk.{layer}.{part}.weight"
            out.add_tensor(name, wider.norm(name))
        for part in wider.sizes:
            add_quantized(out, f"blk.{layer}.{part}.weight", wider.matrix(layer, part))
    out.add_tensor("output_norm.weight", wider.norm("output_norm.weight"))


def main() -> None:
    options = arguments()
    wider = Wider(options)
    out = gguf.GGUFWriter(options.out, "llama")
    write_keys(out, wider)
    write_tensors(out, wider)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()
    print(f"{options.out}: {options.out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
