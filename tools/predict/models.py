# SPDX-License-Identifier: MIT
"""Ways to predict a program's cost from its first prompt, for one class. Each is a function of the
samples to learn from, [(tokens, cost), ...], that gives a function of tokens. The first is what the
appliance has; the others are what it is compared with."""
import warnings
from dataclasses import dataclass

import numpy
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import RidgeCV
from sklearn.neural_network import MLPRegressor

import features

PENALTIES = 10.0 ** numpy.arange(-3, 4)
FEWEST = 16             # samples from which more than their mean is learnt
MLP_WIDTH_MAX = 256
TFIDF_WORDS_MAX = 2000


@dataclass
class Trained:
    """What the file has of a class; all logarithms are floats as there."""
    name: str
    samples: int
    mean: float
    low: float
    high: float
    weights: numpy.ndarray

    def cost_of(self, tokens):
        return features.cost_of(self.weights, self.low, self.high, tokens)


def logs_of(samples):
    return numpy.log(numpy.array([float(cost) for _, cost in samples]))


def fit_weights(samples, logs):
    """The penalty is the one that does best where each sample is left out in turn."""
    rows = numpy.array([features.features_of(tokens)[:-1] for tokens, _ in samples])
    ridge = RidgeCV(alphas=PENALTIES).fit(rows, logs)
    return numpy.append(ridge.coef_, ridge.intercept_)


def train(name, samples, fewest=FEWEST):
    logs = logs_of(samples)
    low, high = numpy.float32(logs.min()), numpy.float32(logs.max())
    mean = min(max(numpy.float32(logs.mean()), low), high)
    weights = numpy.append(numpy.zeros(features.WEIGHTS - 1), mean)
    if len(samples) >= fewest:
        weights = fit_weights(samples, logs)
    weights = weights.astype(numpy.float32)
    return Trained(name, len(samples), float(mean), float(low), float(high), weights)


def hashed_ridge(samples):
    return train("", samples).cost_of


def class_mean(samples):
    mean = numpy.mean([float(cost) for _, cost in samples])
    return lambda tokens: mean


def class_log_mean(samples):
    mean = numpy.exp(logs_of(samples).mean())
    return lambda tokens: mean


def words_of(tokens):
    return [str(token) for token in tokens]


def tfidf_mlp(samples, as_log):
    """The paper's: TF-IDF of the prompt, then four layers, the first as wide as a mean prompt is
    long, each later one half as wide. Words and width are bounded, so that a comparison takes
    minutes."""
    vectorizer = TfidfVectorizer(analyzer=words_of, max_features=TFIDF_WORDS_MAX)
    rows = vectorizer.fit_transform([tokens for tokens, _ in samples])
    costs = numpy.array([float(cost) for _, cost in samples])
    targets = numpy.log(costs) if as_log else costs
    centre, scale = targets.mean(), targets.std() or 1.0
    first = int(min(numpy.mean([len(tokens) for tokens, _ in samples]), MLP_WIDTH_MAX))
    first = max(first, 8)
    mlp = MLPRegressor(hidden_layer_sizes=(first, first // 2, first // 4), max_iter=400,
                       random_state=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        mlp.fit(rows, (targets - centre) / scale)

    def predict(tokens):
        value = float(mlp.predict(vectorizer.transform([tokens]))[0]) * scale + centre
        if as_log:
            value = float(numpy.exp(min(value, 43.0)))
        return max(value, 1.0)
    return predict


METHODS = {
    "hashed ridge": hashed_ridge,
    "class mean": class_mean,
    "class log mean": class_log_mean,
    "MLP raw": lambda samples: tfidf_mlp(samples, False),
    "MLP log": lambda samples: tfidf_mlp(samples, True),
}
