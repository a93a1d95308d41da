# SPDX-License-Identifier: MIT
"""What a predictor sees of a prompt: the twin of sched/class/predictor.c, which has the reasons."""
import numpy

VERSION = 1
TOKENS = 1024           # of a prompt that are looked at
BUCKETS = 1024          # of its 1- and 2-grams
WEIGHTS = BUCKETS + 2   # and log length, and 1
NO_TOKEN = 0xffffffff   # before a 1-gram
FACTOR = numpy.uint64(0x9e3779b97f4a7c15)
SHIFT = numpy.uint64(64 - 10)


def buckets_of(before, tokens):
    grams = before.astype(numpy.uint64) << numpy.uint64(32) | tokens.astype(numpy.uint64)
    return (grams * FACTOR) >> SHIFT


def features_of(tokens):
    """WEIGHTS numbers."""
    read = numpy.asarray(tokens[:TOKENS], dtype=numpy.uint32)
    ones = numpy.full(len(read), NO_TOKEN, dtype=numpy.uint32)
    found = numpy.concatenate([buckets_of(ones, read), buckets_of(read[:-1], read[1:])])
    values = numpy.log1p(numpy.bincount(found.astype(numpy.int64), minlength=BUCKETS))
    norm = numpy.sqrt(numpy.sum(values * values))
    length = numpy.log(max(len(tokens), 1))
    return numpy.append(values / norm if norm > 0 else values, [length, 1.0])


def cost_of(weights, low, high, tokens):
    """What the appliance predicts with these numbers of a class."""
    log_cost = float(numpy.dot(weights.astype(numpy.float64), features_of(tokens)))
    return int(numpy.exp(min(max(log_cost, low), high)) + 0.5)
