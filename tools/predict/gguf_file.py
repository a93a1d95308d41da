# SPDX-License-Identifier: MIT
"""Writes a predictor as the appliance reads it: config/model/predictor.h has the format."""
import struct

import numpy

import features

U32, I32, F32, TEXT, ARRAY = 4, 5, 6, 8, 9
ALIGNMENT = 32


def text(value):
    return struct.pack("<Q", len(value.encode())) + value.encode()


def pair(key, kind, value):
    return text(key) + struct.pack("<I", kind) + value


def number(key, value):
    return pair(key, U32, struct.pack("<I", value))


def array(key, kind, values):
    return pair(key, ARRAY, struct.pack("<IQ", kind, len(values)) + b"".join(values))


def keys_of(classes):
    return [
        pair("general.architecture", TEXT, text("predictor")),
        number("predictor.version", features.VERSION),
        number("predictor.buckets", features.BUCKETS),
        number("predictor.tokens", features.TOKENS),
        array("predictor.classes", TEXT, [text(trained.name) for trained in classes]),
        array("predictor.samples", I32, [struct.pack("<i", c.samples) for c in classes]),
        array("predictor.means", F32, [struct.pack("<f", c.mean) for c in classes]),
        array("predictor.lows", F32, [struct.pack("<f", c.low) for c in classes]),
        array("predictor.highs", F32, [struct.pack("<f", c.high) for c in classes]),
    ]


def write(path, classes):
    classes = sorted(classes, key=lambda trained: trained.name.encode())
    keys = keys_of(classes)
    tensor = text("predictor.weights") + struct.pack("<IQQIQ", 2, features.WEIGHTS, len(classes),
                                                     0, 0)
    header = b"GGUF" + struct.pack("<IQQ", 3, 1, len(keys)) + b"".join(keys) + tensor
    with open(path, "wb") as file:
        file.write(header + b"\0" * (-len(header) % ALIGNMENT))
        for trained in classes:
            file.write(numpy.asarray(trained.weights, dtype="<f4").tobytes())
