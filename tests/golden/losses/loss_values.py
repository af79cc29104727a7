#!/usr/bin/env python3
"""Writes values.txt: what the losses and metrics of Keras and Optax make of some rows, with derivatives.

    python3 tests/golden/losses/loss_values.py

needs JAX 0.10.2, Optax 0.2.8 and Keras 3.15.1. Everything is float64. The file begins with the rows that all are given;
tests/golden/losses/cases.cpp has ours under the same names. Of a loss there are the sum over rows times weights, the sum
of the weights, the gradient of the first by each operand that is named, and the gradient by the first operand of that
gradient times cos(0), cos(1), ...; of a metric there is its value.
"""

import os
import pathlib
import sys

os.environ["KERAS_BACKEND"] = "jax"

import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp
import keras
import numpy as np
import optax

keras.config.set_floatx("float64")
kl, km = keras.losses, keras.metrics
# Keras' means are of float32.
keras.src.losses.losses.ops.mean = lambda x, axis=None, keepdims=False: jnp.mean(x, axis, keepdims=keepdims)

rng = np.random.default_rng(20261127)


def probabilities(shape):
    raw = rng.uniform(0.1, 1, shape)
    return raw / raw.sum(-1, keepdims=True)


GIVEN = {
    "weight": np.array([1.0, 0.5, 2.0, 0.0]),
    "ones": np.array([1.0, 1.0, 1.0, 0.0]),
    "logs": np.log(probabilities((4, 3))),
    "others": np.log(probabilities((4, 3))),
    "x": rng.standard_normal((4, 3)) * 2,
    "y": rng.standard_normal((4, 3)) * 2,
    "p": rng.uniform(0.05, 0.95, (4, 3)),
    "q": rng.uniform(0.2, 3, (4, 3)),
    "counts": np.array([[0.0, 1, 2], [3, 0, 1], [1, 5, 0], [2, 2, 1]]),
    "dense": probabilities((4, 3)),
    "other": probabilities((4, 3)),
    "bits": np.array([[0.0, 1, 1], [1, 0, 0], [1, 1, 0], [0, 0, 1]]),
    "classes": np.array([2, 0, 1, 1]),
    "groups": np.array([1, 0, 1, 0]),
    "pairs": np.array([1.0, 0, 1, 0]),
    "distances": np.array([0.3, 0.4, 1.2, 0.7]),
    "a": rng.standard_normal((4, 5)),
    "b": rng.standard_normal((4, 5)),
    "c": rng.standard_normal((4, 5)),
    "areas": rng.uniform(0.05, 0.95, (4, 2, 3, 2)),
    "shares": probabilities((4, 2, 3, 2)),
    "marks": (rng.uniform(0, 1, (4, 2, 3, 2)) > 0.5).astype(float),
    "frames": np.array([6, 5, 6, 4]),
    "spoken": rng.standard_normal((4, 6, 4)),
    "words": np.array([[1, 2, 2], [3, 1, 0], [2, 0, 0], [1, 1, 0]]),
    "lengths": np.array([3, 2, 1, 2]),
    "truth": (rng.uniform(0, 1, (40,)) > 0.4).astype(float),
    "importance": np.where(np.arange(40) % 7 == 0, 0.0, rng.integers(1, 4, 40)).astype(float),
    "labels": rng.integers(0, 4, (40,)),
    "wanted": rng.standard_normal((40, 2)),
}
GIVEN["many"] = 0.2 * GIVEN["truth"] + rng.uniform(0, 0.8, (40,))
GIVEN["scores"] = rng.standard_normal((40, 4)) + 1.5 * (np.arange(4) == GIVEN["labels"][:, None])
GIVEN["found"] = 0.8 * GIVEN["wanted"] + 0.4 * rng.standard_normal((40, 2))


def masked(frames, steps):
    return (np.arange(steps)[None, :] >= np.asarray(frames)[:, None]).astype(float)


def hot(classes, n=3):
    return jax.nn.one_hot(classes, n, dtype="float64")


def as_signs(y):
    return 2 * y - 1


def gaussian(mean, variance, y):
    """torch.nn.functional.gaussian_nll_loss"""
    return 0.5 * (jnp.log(variance) + (mean - y) ** 2 / variance)


def contrastive(d, same):
    """Hadsell, Chopra and LeCun 2006, without the half."""
    return same * d**2 + (1 - same) * jnp.maximum(1 - d, 0) ** 2


def cosine_embedding(a, b, same):
    """torch.nn.functional.cosine_embedding_loss with margin 0.1"""
    cosine = optax.cosine_similarity(a, b)
    return jnp.where(same > 0, 1 - cosine, jnp.maximum(cosine - 0.1, 0))


def paper_tversky(p, y, alpha, beta, smooth):
    axes = tuple(range(1, p.ndim - 1))
    both = (p * y).sum(axes)
    false_positive, false_negative = (p * (1 - y)).sum(axes), ((1 - p) * y).sum(axes)
    return 1 - (both + smooth) / (both + alpha * false_positive + beta * false_negative + smooth)


def circle(embeddings, labels):
    """keras.losses.circle's values with factors that are constants, as the paper has them."""
    s = embeddings @ embeddings.T
    same = labels[:, None] == labels[None, :]
    not_self = ~np.eye(len(labels), dtype=bool)
    fixed = jax.lax.stop_gradient(s)
    near = -8 * jnp.maximum(1.4 - fixed, 0) * (s - 0.6)
    far = 8 * jnp.maximum(fixed + 0.4, 0) * (s - 0.4)
    total = lambda v, held: jax.nn.logsumexp(jnp.where(held, v, -jnp.inf), axis=1)
    losses = jax.nn.softplus(total(near, same & not_self) + total(far, ~same))
    theirs = kl.circle(labels, embeddings, gamma=8.0)
    return losses + jax.lax.stop_gradient(theirs - losses)


def unit(x):
    return x / jnp.linalg.norm(x, axis=-1, keepdims=True)


LOSSES = {
    "softmax_cross_entropy": ("x", "optax.softmax_cross_entropy_with_integer_labels(x, classes)"),
    "softmax_cross_entropy/dense": ("x dense", "optax.softmax_cross_entropy(x, dense)"),
    "softmax_cross_entropy/smoothed": ("x", "kl.categorical_crossentropy(hot(classes), x, from_logits=True, label_smoothing=0.1)"),
    "softmax_cross_entropy/smoothed_dense": ("x", "kl.categorical_crossentropy(dense, x, from_logits=True, label_smoothing=0.1)"),
    "softmax_cross_entropy/probabilities": ("p", "kl.categorical_crossentropy(dense, p)"),
    "softmax_cross_entropy/sparse_probabilities": ("p", "kl.sparse_categorical_crossentropy(classes, p)"),
    "softmax_cross_entropy/ignored": ("x", "kl.sparse_categorical_crossentropy(classes, x, from_logits=True, ignore_class=1), weight * (classes != 1)"),
    "poly_cross_entropy": ("x", "optax.losses.poly_loss_cross_entropy(x, dense, epsilon=1.5)"),
    "generalized_cross_entropy": ("x", "kl.categorical_generalized_cross_entropy(classes, jax.nn.softmax(x), 0.7)"),
    "binary_cross_entropy": ("x p", "optax.sigmoid_binary_cross_entropy(x, p)"),
    "binary_cross_entropy/smoothed": ("x", "kl.binary_crossentropy(bits, x, from_logits=True, label_smoothing=0.2)"),
    "binary_cross_entropy/probabilities": ("p", "kl.binary_crossentropy(bits, p)"),
    "binary_cross_entropy/positive_weight": ("x bits", "-2.5 * bits * jax.nn.log_sigmoid(x) - (1 - bits) * jax.nn.log_sigmoid(-x)"),
    "sigmoid_focal": ("x", "optax.sigmoid_focal_loss(x, p, alpha=0.3, gamma=1.5)"),
    "sigmoid_focal/plain": ("x", "optax.sigmoid_focal_loss(x, bits)"),
    "sigmoid_focal/probabilities": ("p", "kl.binary_focal_crossentropy(bits, p, apply_class_balancing=True, alpha=0.3, label_smoothing=0.1)"),
    "softmax_focal": ("x", "kl.categorical_focal_crossentropy(dense, x, from_logits=True, alpha=0.4, gamma=1.5)"),
    "softmax_focal/probabilities": ("p", "kl.categorical_focal_crossentropy(hot(classes), p, alpha=0.25, label_smoothing=0.1)"),
    "hinge": ("x", "optax.losses.hinge_loss(x, as_signs(bits))"),
    "hinge/perceptron": ("x", "optax.losses.perceptron_loss(x, as_signs(bits))"),
    "squared_hinge": ("x", "optax.losses.hinge_loss(x, as_signs(bits)) ** 2"),
    "multiclass_hinge": ("x", "optax.losses.multiclass_hinge_loss(x, classes)"),
    "sparsemax_loss": ("x", "optax.losses.multiclass_sparsemax_loss(x, classes)"),
    "kl_divergence": ("logs dense", "optax.kl_divergence(logs, dense)"),
    "kl_divergence/log_targets": ("logs others", "optax.losses.kl_divergence_with_log_targets(logs, others)"),
    "kl_divergence/probabilities": ("other dense", "kl.kl_divergence(dense, other)"),
    "tversky": ("areas", "paper_tversky(areas, marks, 0.3, 0.7, 0.5)"),
    "tversky/whole": ("areas", "kl.tversky(marks, areas, alpha=0.7, beta=0.3, axis=(1, 2, 3))"),
    "dice": ("shares", "optax.losses.dice_loss(shares, marks, apply_softmax=False, axis=(1, 2), reduction='none')"),
    "dice/whole": ("areas", "kl.dice(marks, areas, axis=(1, 2, 3))"),
    "mean_squared_error": ("x y", "optax.squared_error(x, y)"),
    "mean_absolute_error": ("x y", "kl.mean_absolute_error(y, x)"),
    "mean_absolute_percentage_error": ("x y", "kl.mean_absolute_percentage_error(y, x)"),
    "mean_squared_logarithmic_error": ("q p", "kl.mean_squared_logarithmic_error(p, q)"),
    "huber": ("x y", "optax.huber_loss(x, y, delta=0.7)"),
    "log_cosh": ("x y", "optax.log_cosh(x, y)"),
    "quantile_loss": ("x y", "jnp.maximum(0.3 * (y - x), -0.7 * (y - x))"),
    "poisson": ("q", "kl.poisson(counts, q)"),
    "poisson/log_rate": ("x", "jnp.exp(x) - counts * x"),
    "gaussian_negative_log_likelihood": ("x q y", "gaussian(x, q, y)"),
    "cosine_distance": ("a b", "optax.cosine_distance(a, b)"),
    "cosine_embedding": ("a b", "cosine_embedding(a, b, pairs)"),
    "contrastive": ("distances", "contrastive(distances, pairs)"),
    "triplet_margin": ("a b c", "optax.losses.triplet_margin_loss(a, b, c, margin=0.7)"),
    "margin_ranking": ("x y", "jnp.maximum(0.2 - as_signs(bits) * (x - y), 0)"),
    "ntxent": ("a", "optax.losses.ntxent(a[:3], groups[:3], 0.5), jnp.array([2.0])"),
    "circle": ("a", "circle(unit(a), groups), jnp.ones(4)"),
    "ctc": ("spoken", "optax.ctc_loss(spoken, masked(frames, 6), words, masked(lengths, 3))"),
    "ctc/last_blank": ("spoken", "optax.ctc_loss(spoken, masked(frames, 6), words - 1 + 4 * (words == 0), masked(lengths, 3), blank_id=3)"),
}

METRICS = {
    "accuracy": "km.SparseCategoricalAccuracy(), labels, scores",
    "top_k_accuracy": "km.SparseTopKCategoricalAccuracy(2), labels, scores",
    "binary_accuracy": "km.BinaryAccuracy(threshold=0.4), truth[:, None], many[:, None]",
    "precision": "km.Precision(), truth, many",
    "recall": "km.Recall(thresholds=0.3), truth, many",
    "specificity": "km.Recall(thresholds=0.6), 1 - truth, 1 - many",
    "f_score": "km.FBetaScore(average='micro', beta=0.5, threshold=0.5), truth[:, None], many[:, None]",
    "binary_iou": "km.BinaryIoU([1], threshold=0.5), truth, many",
    "mean_iou": "km.MeanIoU(4, sparse_y_pred=False), labels, scores",
    "class_f1": "km.F1Score(), hot(labels, 4), hot(scores.argmax(-1), 4)",
    "auc": "km.AUC(), truth, many",
    "auc/precision_recall": "km.AUC(50, curve='PR'), truth, many",
    "precision_at_recall": "km.PrecisionAtRecall(0.7), truth, many",
    "recall_at_precision": "km.RecallAtPrecision(0.8), truth, many",
    "sensitivity_at_specificity": "km.SensitivityAtSpecificity(0.6), truth, many",
    "specificity_at_sensitivity": "km.SpecificityAtSensitivity(0.9), truth, many",
    "root_mean_squared_error": "km.RootMeanSquaredError(), wanted, found",
    "cosine_similarity": "km.CosineSimilarity(), wanted, found",
    "r2_score": "km.R2Score(), wanted, found",
    "pearson_correlation": "km.PearsonCorrelation(axis=0), wanted, found",
    "concordance_correlation": "km.ConcordanceCorrelation(axis=0), wanted, found",
}
UNWEIGHTED = {"pearson_correlation", "concordance_correlation"}
# Without the epsilon that Keras adds to the divisor.
EXACT = {"concordance_correlation"}


def numbers(values):
    return " ".join(repr(float(x)) for x in np.ravel(values))


def sums(expression, given):
    values = eval(expression, globals(), given)
    values, weight = values if isinstance(values, tuple) else (values, given["weight"])
    values = jnp.asarray(values)
    if values.ndim == 0:
        values = values[None]
    rows = values.reshape(values.shape[0], -1).mean(-1)
    return jnp.sum(jnp.where(weight == 0, 0, rows) * weight), jnp.sum(weight)


def loss_lines(by, expression):
    given = {name: jnp.asarray(value) for name, value in GIVEN.items()}
    names = by.split()
    total, weight = sums(expression, given)
    yield f" sum | {numbers(total)}"
    yield f" weight | {numbers(weight)}"
    of = lambda name, value: sums(expression, {**given, name: value})[0]
    for name in names:
        gradient = jax.grad(lambda v: of(name, v))
        yield f" by {name} | {numbers(gradient(given[name]))}"
    first = names[0]
    along = jnp.cos(jnp.arange(given[first].size)).reshape(given[first].shape)
    slope = lambda v: jnp.sum(jax.grad(lambda u: of(first, u))(v) * along)
    yield f" twice | {numbers(jax.grad(slope)(given[first]))}"


def metric_lines(name, expression):
    metric, labels, predictions = eval(expression, globals(), dict(GIVEN))
    weight = None if name in UNWEIGHTED else GIVEN["importance"]
    keras.config.set_epsilon(1e-300 if name in EXACT else 1e-7)
    metric.update_state(labels, predictions, sample_weight=weight)
    yield f" value | {numbers(metric.result())}"


def main():
    versions = (jax.__version__, optax.__version__, keras.__version__)
    if versions != ("0.10.2", "0.2.8", "3.15.1"):
        sys.exit(f"these are JAX, Optax and Keras {versions}; the values are those of 0.10.2, 0.2.8 and 3.15.1")
    lines = ["# Losses and metrics of Optax 0.2.8 and Keras 3.15.1 in float64, by loss_values.py"]
    lines += ["given | rows, weights, labels"]
    for name, value in GIVEN.items():
        kind = "i" if value.dtype.kind == "i" else "f"
        lines += [f" {name} {kind} {' '.join(map(str, value.shape))} | {numbers(value)}"]
    for name, (by, expression) in LOSSES.items():
        lines += [f"{name} | {expression}", *loss_lines(by, expression)]
    for name, expression in METRICS.items():
        lines += [f"metrics/{name} | {expression}", *metric_lines(name, expression)]
    path = pathlib.Path(__file__).parent / "values.txt"
    path.write_text("\n".join(lines) + "\n")
    print(f"{len(LOSSES)} losses and {len(METRICS)} metrics in {path.name}")


if __name__ == "__main__":
    main()
