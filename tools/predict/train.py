#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Trains a predictor of what programs cost, for `sched.predictor`.

usage: train.py SAMPLES.jsonl OUT.gguf       trains and writes
       train.py SAMPLES.jsonl --compare      relative errors of this predictor and of others
       --fewest N    of classes with fewer samples the file has their mean alone (default 16)

Samples: samples.py says how a line looks. Needs python3-sklearn: `sh tools/setup predict`.
"""
import argparse
import sys

import samples as lines

try:
    import compare
    import gguf_file
    import models
except ModuleNotFoundError as missing:
    sys.exit("train.py: Python has no module %s: `sh tools/setup predict` installs it for "
             "/usr/bin/python3" % missing.name)

CLASSES_MAX = 1024      # BOUND_PREDICTOR_CLASSES
FEWEST_MIN = 3          # a ridge is chosen by leaving one out


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("samples")
    parser.add_argument("out", nargs="?")
    parser.add_argument("--compare", action="store_true")
    parser.add_argument("--fewest", type=int, default=models.FEWEST)
    words = parser.parse_args()
    try:
        classes = lines.read(words.samples)
    except (OSError, lines.BadSample) as problem:
        sys.exit("train.py: %s" % problem)
    if len(classes) > CLASSES_MAX:
        sys.exit("train.py: %d classes, expected 1 to %d" % (len(classes), CLASSES_MAX))
    for name in sorted(classes):
        if len(classes[name]) < words.fewest:
            print("%s: its mean, for want of samples: %d" % (name, len(classes[name])))
    if words.compare:
        compare.show({name: kept for name, kept in classes.items()
                      if len(kept) >= models.FEWEST})
    if words.out:
        trained = [models.train(name, classes[name], max(words.fewest, FEWEST_MIN))
                   for name in sorted(classes)]
        gguf_file.write(words.out, trained)
        print("%s: %d classes, %d samples" % (words.out, len(trained),
                                              sum(one.samples for one in trained)))


if __name__ == "__main__":
    main()
