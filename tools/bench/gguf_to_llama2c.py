#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Rewrites an F32 GGUF model in the format of llama2.c, for speed comparisons.

    gguf_to_llama2c.py MODEL.gguf OUT.bin OUT.tokenizer

The tokenizer gives every token its own number as text ("17 "), so that what llama2.c prints is a
list of ids. Both formats hold Q and K with the channels of a RoPE pair side by side: nothing is
permuted. Only what llama2.c can compute is taken: F32, RoPE base 10000, no RoPE factors.
"""
import struct
import sys

SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q",
           12: "d"}


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, code):
        value = struct.unpack_from("<" + code, self.data, self.at)[0]
        self.at += struct.calcsize("<" + code)
        return value

    def text(self):
        count = self.take("Q")
        self.at += count
        return self.data[self.at - count:self.at].decode("utf-8", "replace")

    def value(self, kind):
        if kind == 8:
            return self.text()
        if kind == 9:
            inner, count = self.take("I"), self.take("Q")
            return [self.value(inner) for _ in range(count)]
        return self.take(SCALARS[kind])


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    data = open(sys.argv[1], "rb").read()
    reader = Reader(data)
    if reader.take("I") != 0x46554747 or reader.take("I") != 3:
        sys.exit("not a GGUF v3 file")
    tensors_count, keys_count = reader.take("Q"), reader.take("Q")
    keys = {}
    for _ in range(keys_count):
        name = reader.text()
        keys[name] = reader.value(reader.take("I"))
    tensors = {}
    for _ in range(tensors_count):
        name = reader.text()
        dims = [reader.take("Q") for _ in range(reader.take("I"))]
        kind, offset = reader.take("I"), reader.take("Q")
        if kind != 0:
            sys.exit(f"{name} is not F32")
        tensors[name] = (dims, offset)
    align = keys.get("general.alignment", 32)
    start = (reader.at + align - 1) // align * align

    def key(name, default=None):
        return keys.get("llama." + name, default)

    dim, heads = key("embedding_length"), key("attention.head_count")
    layers, context = key("block_count"), key("context_length")
    vocab = tensors["token_embd.weight"][0][1]
    if key("rope.freq_base", 10000.0) != 10000.0 or "rope_freqs.weight" in tensors:
        sys.exit("llama2.c knows RoPE with base 10000 only")
    tied = "output.weight" not in tensors
    with open(sys.argv[2], "wb") as out:
        out.write(struct.pack("<7i", dim, key("feed_forward_length"), layers, heads,
                              key("attention.head_count_kv", heads),
                              vocab if tied else -vocab, context))

        def put(name):
            dims, offset = tensors[name + ".weight"]
            size = 4
            for d in dims:
                size *= d
            out.write(data[start + offset:start + offset + size])

        put("token_embd")
        for part in ("attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_norm",
                     "ffn_gate", "ffn_down", "ffn_up"):
            for layer in range(layers):
                put(f"blk.{layer}.{part}")
        put("output_norm")
        out.write(bytes(4 * context * (dim // heads)))  # old RoPE tables, unused
        if not tied:
            put("output")
    with open(sys.argv[3], "wb") as out:
        out.write(struct.pack("<i", 8))
        for token in range(vocab):
            text = f"{token} ".encode()
            out.write(struct.pack("<fi", 0.0, len(text)) + text)


main()
