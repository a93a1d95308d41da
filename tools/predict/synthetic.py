#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Writes samples of invented programs, for tests and for a first look:

usage: synthetic.py OUT.jsonl [SAMPLES_OF_A_CLASS] [SEED]

Words are token ids, and rare ones are rarer as in texts. A class has TOPICS topics. A program is
about one of them: that is where its prompt has every fourth word from, and what its cost depends
on, besides the length of the prompt and chance. So the mean of a class is a bad prediction, and a
function of words is a good one."""
import math
import random
import sys

import samples

VOCABULARY = 4000
TOPICS = 6
TOPIC_WORDS = 40
CLASSES = ("chat", "code", "search")


def common_word(draw):
    return min(int(VOCABULARY ** draw.random()), VOCABULARY) - 1


def topic_word(draw, topic):
    return VOCABULARY + topic * TOPIC_WORDS + draw.randrange(TOPIC_WORDS)


def program(draw, at):
    """(tokens, cost) of a program of class `at`."""
    topic = at * TOPICS + draw.randrange(TOPICS)
    tokens = [topic_word(draw, topic) if draw.random() < 0.25 else common_word(draw)
              for _ in range(draw.randint(50, 600))]
    log_cost = 9 + 0.7 * (topic % TOPICS) + 0.5 * math.log(len(tokens)) + draw.gauss(0, 0.1)
    return tokens, int(math.exp(log_cost))


def make(count, seed):
    """(class, tokens, cost), `count` of each class."""
    draw = random.Random(seed)
    return [(name, *program(draw, at)) for _ in range(count) for at, name in enumerate(CLASSES)]


def main(path, count="150", seed="1"):
    samples.write(path, make(int(count), int(seed)))


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
