# SPDX-License-Identifier: MIT
"""How far predictions are off: |predicted - C| / C, in the mean over samples that were not learnt
from. Every class is cut into FOLDS parts; each part is predicted by what was learnt from the
others."""
import numpy

import models

FOLDS = 5


def parts_of(count):
    """The same cut for every method: numbers of samples, dealt after one shuffle."""
    order = numpy.random.default_rng(1).permutation(count)
    return [order[first::FOLDS] for first in range(min(FOLDS, count))]


def errors_of(method, samples):
    errors = []
    for part in parts_of(len(samples)):
        chosen = set(part.tolist())
        learnt = [sample for at, sample in enumerate(samples) if at not in chosen]
        predict = method(learnt)
        errors += [abs(predict(tokens) - cost) / cost for tokens, cost in
                   (samples[at] for at in part)]
    return errors


def compare(classes, methods=None):
    """{class: {method: mean relative error}}"""
    methods = methods or models.METHODS
    return {name: {label: float(numpy.mean(errors_of(method, classes[name])))
                   for label, method in methods.items()} for name in sorted(classes)}


def show(classes):
    print("relative error in %%, %d-fold cross-validated" % FOLDS)
    print("| class | samples | %s |" % " | ".join(models.METHODS))
    print("|---" * (len(models.METHODS) + 2) + "|")
    for name, errors in compare(classes).items():
        cells = " | ".join("%.0f" % (100 * error) for error in errors.values())
        print("| %s | %d | %s |" % (name, len(classes[name]), cells), flush=True)
