#!/usr/bin/env python3
"""Writes precision.txt: the dtypes that Keras' policies give to layers' variables and results.

    python3 tests/golden/layers/precision_values.py

needs Keras 3.15.1 and JAX. A line is "policy | layer | dtype of the result | variable dtype, ...", with our layers' and
variables' names.
"""

import os
import pathlib

os.environ["KERAS_BACKEND"] = "jax"

import keras
import numpy as np

L = keras.layers
images, sequences, rows = (2, 6, 6, 4), (2, 5, 4), (2, 4)

LAYERS = {
    "dense": (lambda: L.Dense(3), rows, ["kernel", "bias"]),
    "einsum_dense": (lambda: L.EinsumDense("btf,fg->btg", (None, 4), bias_axes="g"), sequences, ["kernel", "bias"]),
    "embedding": (lambda: L.Embedding(8, 4), None, ["embeddings"]),
    "conv": (lambda: L.Conv1D(3, 3), sequences, ["kernel", "bias"]),
    "conv2d": (lambda: L.Conv2D(3, 3), images, ["kernel", "bias"]),
    "conv_transpose": (lambda: L.Conv2DTranspose(3, 3), images, ["kernel", "bias"]),
    "depthwise_conv": (lambda: L.DepthwiseConv2D(3), images, ["kernel", "bias"]),
    "separable_conv": (lambda: L.SeparableConv2D(3, 3), images, ["depthwise_kernel", "pointwise_kernel", "bias"]),
    "batch_norm": (lambda: L.BatchNormalization(), images, ["gamma", "beta", "moving_mean", "moving_variance"]),
    "layer_norm": (lambda: L.LayerNormalization(), sequences, ["gamma", "beta"]),
    "group_norm": (lambda: L.GroupNormalization(2), images, ["gamma", "beta"]),
    "rms_norm": (lambda: L.RMSNormalization(), sequences, ["gamma"]),
    "prelu": (lambda: L.PReLU(shared_axes=[1]), sequences, ["alpha"]),
    "lstm": (lambda: L.LSTM(3, return_sequences=True, recurrent_initializer="zeros"), sequences, ["kernel", "recurrent_kernel", "bias"]),
    "simple_rnn": (lambda: L.SimpleRNN(3, return_sequences=True, recurrent_initializer="zeros"), sequences, ["kernel", "recurrent_kernel", "bias"]),
    "multi_head_attention": (None, sequences, ["qkv/kernel", "qkv/bias", "out/kernel", "out/bias"]),
}


def line(policy, name):
    make, shape, names = LAYERS[name]
    x = np.zeros((2, 3), "int32") if shape is None else np.linspace(-1, 1, int(np.prod(shape)), dtype="float32").reshape(shape)
    if make is None:
        layer = L.MultiHeadAttention(2, 2, dtype=policy)
        y = layer(x, x)
        dtypes = {str(v.dtype) for v in layer.variables}
        assert len(dtypes) == 1
        variables = {n: dtypes.copy().pop() for n in names}
    else:
        layer = make()
        layer = type(layer).from_config({**layer.get_config(), "dtype": policy})
        y = layer(x)
        variables = dict(zip(names, (str(v.dtype) for v in layer.weights)))
        assert len(layer.weights) == len(names), (name, [v.path for v in layer.weights])
    if not policy.startswith("mixed") and policy != "float32":
        # Ours keep statistics in float32, Keras' in the policy's own dtype.
        variables = {n: d for n, d in variables.items() if not n.startswith("moving")}
    return f"{policy} | {name} | {keras.backend.standardize_dtype(y.dtype)} | " + ", ".join(
        f"{n} {d}" for n, d in variables.items()
    )


def main():
    text = "# precision_values.py: Keras " + keras.__version__ + "\n"
    for policy in ["float32", "mixed_bfloat16", "mixed_float16", "bfloat16", "float16"]:
        for name in LAYERS:
            text += line(policy, name) + "\n"
    pathlib.Path(__file__).with_name("precision.txt").write_text(text)


if __name__ == "__main__":
    main()
