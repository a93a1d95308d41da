# SPDX-License-Identifier: MIT
"""A forward pass in double precision, written from the papers, with a GGUF reader of its own.

    Reference(path).logits(tokens)      for each position: a list with a logit for each token

It shares nothing with the engine, its tests in C or their tables, and needs only Python. A token of
a model with 10^5 weights takes about 10 ms.
"""
import math
import struct
from operator import mul

FIXED = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
TEXT, ARRAY = 8, 9
FORMS = {0: "f", 1: "e"}                # of tensors: F32, F16
ADJACENT = {"llama"}                    # rotates pairs (2i, 2i + 1); elsewhere (i, i + half)


class File:
    """Keys and tensors of a GGUF file."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.bytes = file.read()
        self.at = 8
        tensors, keys = self.take("Q"), self.take("Q")
        self.keys = {}
        for _ in range(keys):
            name = self.text()
            self.keys[name] = self.value(self.take("I"))
        self.tensors = {}
        for _ in range(tensors):
            name = self.text()
            dims = [self.take("Q") for _ in range(self.take("I"))]
            self.tensors[name] = (dims, self.take("I"), self.take("Q"))
        self.data = (self.at + 31) // 32 * 32

    def take(self, form):
        value = struct.unpack_from("<" + form, self.bytes, self.at)[0]
        self.at += struct.calcsize("<" + form)
        return value

    def text(self):
        count = self.take("Q")
        self.at += count
        return self.bytes[self.at - count:self.at].decode("utf-8", "replace")

    def value(self, kind):
        if kind == TEXT:
            return self.text()
        if kind == ARRAY:
            element, count = self.take("I"), self.take("Q")
            return [self.value(element) for _ in range(count)]
        return self.take(FIXED[kind])

    def rows(self, name):
        """A tensor as a list of rows of floats."""
        dims, kind, offset = self.tensors[name]
        columns, count = dims[0], math.prod(dims)
        flat = struct.unpack_from("<%d%s" % (count, FORMS[kind]), self.bytes, self.data + offset)
        return [flat[i:i + columns] for i in range(0, count, columns)]


def product(matrix, x):
    return [sum(map(mul, row, x)) for row in matrix]


def add(x, y):
    return [a + b for a, b in zip(x, y)]


class Reference:
    def __init__(self, path):
        file = self.file = File(path)
        self.family = file.keys["general.architecture"]
        self.layers = self.key("block_count")
        self.heads = self.key("attention.head_count")
        self.kv_heads = self.key("attention.head_count_kv")
        self.epsilon = self.key("attention.layer_norm_rms_epsilon")
        self.head_dim = self.key("attention.key_length",
                                 self.key("embedding_length") // self.heads)
        self.weights = {name: file.rows(name) for name in file.tensors}
        scale = self.key("rope.scaling.factor", 1.0)
        pairs = self.key("rope.dimension_count", self.head_dim) // 2
        factors = self.weights.get("rope_freqs.weight", [[1.0] * pairs])[0]
        base = self.key("rope.freq_base")
        self.frequencies = [base ** (-i / pairs) / factors[i] / scale for i in range(pairs)]

    def key(self, name, default=None):
        return self.file.keys.get(self.family + "." + name, default)

    def norm(self, x, weight):
        root = math.sqrt(sum(map(mul, x, x)) / len(x) + self.epsilon)
        return [a / root * w for a, w in zip(x, weight)]

    def rotate(self, head, position):
        """The head with its pairs rotated by the position."""
        turned, pairs = list(head), len(self.frequencies)
        for i, frequency in enumerate(self.frequencies):
            a, b = (2 * i, 2 * i + 1) if self.family in ADJACENT else (i, i + pairs)
            cosine, sine = math.cos(position * frequency), math.sin(position * frequency)
            turned[a] = head[a] * cosine - head[b] * sine
            turned[b] = head[a] * sine + head[b] * cosine
        return turned

    def project(self, layer, part, x):
        """Heads of queries (q), keys (k) or values (v), before they are rotated."""
        name = "blk.%d.attn_%s" % (layer, part)
        y = product(self.weights[name + ".weight"], x)
        if name + ".bias" in self.weights:
            y = add(y, self.weights[name + ".bias"][0])
        heads = [y[i:i + self.head_dim] for i in range(0, len(y), self.head_dim)]
        if name + "_norm.weight" in self.weights:
            heads = [self.norm(head, self.weights[name + "_norm.weight"][0]) for head in heads]
        return heads

    def attend(self, query, keys, values):
        scores = [sum(map(mul, query, key)) / math.sqrt(self.head_dim) for key in keys]
        most = max(scores)
        weights = [math.exp(score - most) for score in scores]
        total = sum(weights)
        return [sum(map(mul, weights, channel)) / total for channel in zip(*values)]

    def layer(self, layer, x, position, cache):
        def weight(name):
            return self.weights["blk.%d.%s.weight" % (layer, name)]

        normed = self.norm(x, weight("attn_norm")[0])
        queries, keys = (
            [self.rotate(head, position) for head in self.project(layer, part, normed)]
            for part in "qk")
        cache.append((keys, self.project(layer, "v", normed)))
        group = self.heads // self.kv_heads
        attended = []
        for h, query in enumerate(queries):
            attended += self.attend(query, [keys[h // group] for keys, _ in cache],
                                    [values[h // group] for _, values in cache])
        x = add(x, product(weight("attn_output"), attended))
        normed = self.norm(x, weight("ffn_norm")[0])
        gate = product(weight("ffn_gate"), normed)
        up = product(weight("ffn_up"), normed)
        inner = [g / (1 + math.exp(-g)) * u for g, u in zip(gate, up)]
        return add(x, product(weight("ffn_down"), inner))

    def logits(self, tokens):
        caches = [[] for _ in range(self.layers)]
        output = self.weights.get("output.weight", self.weights["token_embd.weight"])
        of_each = []
        for position, token in enumerate(tokens):
            x = self.weights["token_embd.weight"][token]
            for layer in range(self.layers):
                x = self.layer(layer, x, position, caches[layer])
            of_each.append(product(output, self.norm(x, self.weights["output_norm.weight"][0])))
        return of_each
