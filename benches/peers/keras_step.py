"""usage: keras_step.py FOLDER WORKLOAD. The training steps of benches/workloads.cpp in Keras on JAX.

The step is what Keras' guide to custom loops on JAX writes: one jitted, donating function of the model's stateless_call
and the optimizer's stateless_apply. A layer's name is its path in the file of weights, with dots.
"""

import os
import sys
from functools import partial

os.environ["KERAS_BACKEND"] = "jax"

import jax
import jax.numpy as jnp
import keras
from keras import layers, ops

from protocol import inputs, package_versions, serve_function, uses_sgd

folder, workload = sys.argv[1:3]
versions = partial(package_versions, "keras", "jax", "jaxlib")


def half_padded(name, x, filters, kernel=3, stride=1, use_bias=False):
    """Keras' own "same" pads one side alone where the stride is two."""
    if stride == 1 or kernel == 1:
        return layers.Conv2D(filters, kernel, stride, padding="same", use_bias=use_bias, name=name)(x)
    x = layers.ZeroPadding2D(kernel // 2)(x)
    return layers.Conv2D(filters, kernel, stride, padding="valid", use_bias=use_bias, name=name)(x)


def mlp(activation, widths, x):
    for i, width in enumerate(widths):
        x = layers.Dense(width, activation, name=f"dense_{i}")(x)
    return layers.Dense(10, name="head")(x)


def cnn(x):
    for i, filters in enumerate((32, 64)):
        x = layers.Conv2D(filters, 3, padding="same", activation="relu", name=f"conv_{i}")(x)
        x = layers.MaxPooling2D()(x)
    x = layers.Dense(128, "relu", name="dense")(layers.Flatten()(x))
    return layers.Dense(10, name="head")(x)


def conv_norm(name, x, filters, kernel=3, stride=1):
    x = half_padded(name + ".conv", x, filters, kernel, stride)
    return layers.BatchNormalization(momentum=0.9, epsilon=1e-5, name=name + ".norm")(x)


def resnet(filters, blocks, x):
    x = layers.ReLU()(conv_norm("stem", x, filters[0]))
    for stage, width in enumerate(filters):
        for block in range(blocks):
            name, stride = f"stage_{stage}.block_{block}", 2 if stage > 0 and block == 0 else 1
            y = layers.ReLU()(conv_norm(name + ".first", x, width, 3, stride))
            y = conv_norm(name + ".second", y, width)
            if stride != 1 or x.shape[-1] != width:
                x = conv_norm(name + ".shortcut", x, width, 1, stride)
            x = layers.ReLU()(layers.Add()([x, y]))
    return layers.Dense(10, name="head")(layers.GlobalAveragePooling2D()(x))


class Positions(layers.Layer):
    def build(self, shape):
        self.table = self.add_weight(shape=shape[1:], name="positions")

    def call(self, x):
        return x + self.table


def transformer(depth, heads, causal, x):
    width = x.shape[-1]
    x = Positions(name="learned")(x)
    for i in range(depth):
        name = f"block_{i}"
        attention = layers.MultiHeadAttention(heads, width // heads, name=name + ".attention")
        y = layers.LayerNormalization(epsilon=1e-5, name=name + ".norm_0")(x)
        x = layers.Add()([x, attention(y, y, use_causal_mask=causal)])
        y = layers.LayerNormalization(epsilon=1e-5, name=name + ".norm_1")(x)
        y = layers.Dense(4 * width, partial(ops.gelu, approximate=True), name=name + ".dense_0")(y)
        x = layers.Add()([x, layers.Dense(width, name=name + ".dense_1")(y)])
    return layers.LayerNormalization(epsilon=1e-5, name="norm")(x)


def vit(x):
    x = layers.Conv2D(192, 4, 4, name="patches")(x)
    x = transformer(6, 3, False, layers.Reshape((-1, 192))(x))
    return layers.Dense(10, name="head")(layers.GlobalAveragePooling1D()(x))


def gpt(tokens):
    x = layers.Embedding(512, 256, name="tokens")(tokens)
    return layers.Dense(512, use_bias=False, name="head")(transformer(4, 4, True, x))


def lstm(x):
    x = layers.LSTM(256, return_sequences=True, name="lstm_0")(x)
    return layers.Dense(10, name="head")(layers.LSTM(256, name="lstm_1")(x))


MODELS = {
    "tiny": partial(mlp, "tanh", (32,)),
    "mlp": partial(mlp, "relu", (512, 512)),
    "cnn": cnn,
    "resnet20": partial(resnet, (16, 32, 64), 3),
    "resnet18": partial(resnet, (64, 128, 256, 512), 2),
    "vit": vit,
    "lstm": lstm,
    "gpt": gpt,
}


def load(model, values):
    """MultiHeadAttention has queries, keys and values apart and an axis of heads; the file has one matrix."""
    values = dict(values)
    for leaf in ("kernel", "bias"):
        for path in [path for path in values if path.endswith("/attention/qkv/" + leaf)]:
            for part, value in zip(("query", "key", "value"), jnp.split(values.pop(path), 3, -1)):
                values[path.replace("qkv", part)] = value
    for variable in [v for v in model.variables if "seed_generator" not in v.path]:
        path = variable.path.replace(".", "/").replace("/lstm_cell/", "/").replace("learned/", "")
        path = path.replace("attention_output", "out")
        variable.assign(values.pop(path).reshape(variable.shape))
    if values:
        raise SystemExit(f"no variable for {sorted(values)}")


def adam():
    weights, _, batches = inputs(folder, workload)
    optimizer, w = keras.optimizers.Adam(1e-3, epsilon=1e-8), keras.Variable(weights["w"])
    gradient = jnp.asarray(batches[0][0])
    optimizer.build([w])

    @partial(jax.jit, donate_argnums=(0, 1))
    def update(trained, slots, g):
        trained, slots = optimizer.stateless_apply(slots, [g], trained)
        return trained, slots, trained[0][0]

    serve_function(update, [[w.value], [v.value for v in optimizer.variables]], [(gradient,)], versions)


def main():
    weights, state, batches = inputs(folder, workload)
    x = keras.Input(batches[0][0].shape[1:], len(batches[0][0]), dtype=batches[0][0].dtype.name)
    model = keras.Model(x, MODELS[workload](x))
    load(model, weights | state)
    batches = jax.tree.map(jnp.asarray, batches)
    if uses_sgd(workload):
        optimizer = keras.optimizers.SGD(0.05, momentum=0.9)
    else:
        optimizer = keras.optimizers.AdamW(1e-3, weight_decay=1e-2, epsilon=1e-8)
    optimizer.build(model.trainable_variables)
    criterion = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def loss_of(trained, others, x, y):
        logits, others = model.stateless_call(trained, others, x, training=True)
        return criterion(y, logits), others

    @partial(jax.jit, donate_argnums=(0, 1, 2))
    def train(trained, others, slots, x, y):
        (loss, others), gradients = jax.value_and_grad(loss_of, has_aux=True)(trained, others, x, y)
        trained, slots = optimizer.stateless_apply(slots, gradients, trained)
        return trained, others, slots, loss

    variables = (model.trainable_variables, model.non_trainable_variables, optimizer.variables)
    serve_function(train, [[v.value for v in vs] for vs in variables], batches, versions)


adam() if workload == "adam10m" else main()
