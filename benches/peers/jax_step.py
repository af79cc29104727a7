"""usage: jax_step.py FOLDER WORKLOAD [float64]. The training steps of benches/workloads.cpp in JAX: one jitted, donating
step. In float64 it says which losses a step without rounding errors would have.
"""

import sys
from functools import partial

import jax
import jax.numpy as jnp
import optax

import jax_layers
from protocol import drawn_spec, inputs, optimizer_inputs, package_versions, serve_function, uses_sgd

folder, workload = sys.argv[1:3]
wide = sys.argv[3:] == ["float64"] or workload.endswith("_float64")
jax.config.update("jax_enable_x64", wide)
versions = partial(package_versions, "jax", "jaxlib", "optax")


def dense(w, name, x):
    y = x @ w[name + "/kernel"]
    return y + w[name + "/bias"] if name + "/bias" in w else y


def conv(w, name, x, stride=1, padding=None):
    kernel = w[name + "/kernel"]
    half = (kernel.shape[0] - 1) // 2
    pads = [(half, half)] * 2 if padding is None else padding
    dimensions = ("NHWC", "HWIO", "NHWC")
    y = jax.lax.conv_general_dilated(x, kernel, (stride, stride), pads, dimension_numbers=dimensions)
    return y + w[name + "/bias"] if name + "/bias" in w else y


def max_pool(x):
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def mlp(activation, layers, w, state, x):
    for name in layers:
        x = activation(dense(w, name, x))
    return dense(w, "head", x), state


def cnn(w, state, x):
    for name in ("conv_0", "conv_1"):
        x = max_pool(jax.nn.relu(conv(w, name, x)))
    return dense(w, "head", jax.nn.relu(dense(w, "dense", x.reshape(x.shape[0], -1)))), state


def resnet(filters, blocks, w, state, x):
    new = {}

    def conv_norm(name, x, stride):
        x = conv(w, name + "/conv", x, stride)
        mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
        for key, value in (("mean", mean), ("variance", variance)):
            path = f"{name}/norm/moving_{key}"
            new[path] = 0.9 * state[path] + 0.1 * value
        scale = jax.lax.rsqrt(variance + 1e-5) * w[name + "/norm/gamma"]
        return (x - mean) * scale + w[name + "/norm/beta"]

    x = jax.nn.relu(conv_norm("stem", x, 1))
    for stage, _ in enumerate(filters):
        for block in range(blocks):
            name, stride = f"stage_{stage}/block_{block}", 2 if stage > 0 and block == 0 else 1
            y = conv_norm(name + "/second", jax.nn.relu(conv_norm(name + "/first", x, stride)), 1)
            if f"{name}/shortcut/conv/kernel" in w:
                x = conv_norm(name + "/shortcut", x, stride)
            x = jax.nn.relu(x + y)
    return dense(w, "head", x.mean((1, 2))), new


def layer_norm(w, name, x):
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * w[name + "/gamma"] + w[name + "/beta"]


def transformer(depth, heads, causal, w, x):
    rows, length, width = x.shape
    for i in range(depth):
        name = f"block_{i}"
        joint = dense(w, name + "/attention/qkv", layer_norm(w, name + "/norm_0", x))
        q, k, v = jnp.split(joint.reshape(rows, length, 3 * heads, -1), 3, 2)
        y = jax.nn.dot_product_attention(q, k, v, is_causal=causal).reshape(rows, length, width)
        x = x + dense(w, name + "/attention/out", y)
        y = jax.nn.gelu(dense(w, name + "/dense_0", layer_norm(w, name + "/norm_1", x)))
        x = x + dense(w, name + "/dense_1", y)
    return layer_norm(w, "norm", x)


def vit(w, state, x):
    x = conv(w, "patches", x, 4, [(0, 0), (0, 0)])
    x = x.reshape(x.shape[0], -1, x.shape[-1]) + w["positions"]
    return dense(w, "head", transformer(6, 3, False, w, x).mean(1)), state


def gpt(w, state, tokens):
    x = w["tokens/embeddings"][tokens] + w["positions"]
    return dense(w, "head", transformer(4, 4, True, w, x)), state


def lstm(w, state, x):
    x = x.transpose(1, 0, 2)
    for name in ("lstm_0", "lstm_1"):
        joint = x @ w[name + "/kernel"] + w[name + "/bias"]

        def cell(carry, u, recurrent=w[name + "/recurrent_kernel"]):
            h, c = carry
            i, f, g, o = jnp.split(u + h @ recurrent, 4, -1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        zero = jnp.zeros((x.shape[1], w[name + "/recurrent_kernel"].shape[0]))
        _, x = jax.lax.scan(cell, (zero, zero), joint)
    return dense(w, "head", x[-1]), state


def drawn(spec, w, state, x):
    """Of random_models.py."""
    new = {}
    for i, layer in enumerate(spec["layers"]):
        name = f"layer_{i}"
        if "units" in layer:
            x = dense(w, name + "/dense", x.mean((1, 2)) if x.ndim == 4 else x)
        else:
            reach = (layer["kernel"] - 1) * layer["dilation"] // 2
            x = jax.lax.conv_general_dilated(
                x, w[name + "/conv/kernel"], [layer["stride"]] * 2, [(reach, reach)] * 2,
                rhs_dilation=[layer["dilation"]] * 2, feature_group_count=layer["groups"],
                dimension_numbers=("NHWC", "HWIO", "NHWC"))
            x = x + w[name + "/conv/bias"] if name + "/conv/bias" in w else x
        if layer["norm"] == "layer":
            x = layer_norm(w, name + "/norm", x)
        elif layer["norm"] == "batch":
            axes = tuple(range(x.ndim - 1))
            mean, variance = x.mean(axes), x.var(axes)
            for key, value in (("mean", mean), ("variance", variance)):
                path = f"{name}/norm/moving_{key}"
                new[path] = 0.9 * state[path] + 0.1 * value
            x = (x - mean) * (jax.lax.rsqrt(variance + 1e-5) * w[name + "/norm/gamma"]) + w[name + "/norm/beta"]
        x = getattr(jax.nn if layer["activation"] != "tanh" else jnp, layer["activation"])(x)
    return dense(w, "head", x.mean((1, 2)) if x.ndim == 4 else x), new


MODELS = {
    "tiny": partial(mlp, jnp.tanh, ("dense_0",)),
    "mlp": partial(mlp, jax.nn.relu, ("dense_0", "dense_1")),
    "cnn": cnn,
    "resnet20": partial(resnet, (16, 32, 64), 3),
    "resnet18": partial(resnet, (64, 128, 256, 512), 2),
    "vit": vit,
    "lstm": lstm,
    "gpt": gpt,
}


def start():
    """Weights, state and batches; all that is float32 in the files becomes float64 where that is asked."""
    to_device = lambda a: jnp.asarray(a, jnp.float64 if wide and a.dtype == "float32" else a.dtype)
    return jax.tree.map(to_device, inputs(folder, workload))


def adam():
    weights, _, batches = start()
    optimizer, gradient = optax.adam(1e-3), batches[0][0]

    @partial(jax.jit, donate_argnums=(0, 1))
    def update(w, slots, g):
        updates, slots = optimizer.update(g, slots, w)
        w = optax.apply_updates(w, updates)
        return w, slots, w[0]

    serve_function(update, [weights["w"], optimizer.init(weights["w"])], [(gradient,)], versions)


OPTIMIZERS = {
    "lion_weights": lambda: optax.lion(1e-4, 0.9, 0.99, weight_decay=1e-3),
    "adabelief_weights": lambda: optax.adabelief(1e-3),
    "lamb_weights": lambda: optax.lamb(1e-3, weight_decay=1e-2),
    "adafactor_weights": lambda: optax.adafactor(1e-3),
    "muon_weights": lambda: optax.contrib.muon(1e-3),
}


def update_weights():
    weights, gradients = jax.tree.map(jnp.asarray, optimizer_inputs(folder, workload))
    optimizer = OPTIMIZERS[workload]()

    @partial(jax.jit, donate_argnums=(0, 1))
    def update(w, slots, g):
        updates, slots = optimizer.update(g, slots, w)
        w = optax.apply_updates(w, updates)
        return w, slots, w["dense_0_bias"][0]

    serve_function(update, [weights, optimizer.init(weights)], [(gradients,)], versions)


CALLS = {
    "cholesky": lambda a, b, c: jnp.linalg.cholesky(a),
    "cholesky_grad": jax.grad(lambda a, b, c: (jnp.linalg.cholesky(a) * b).sum()),
    "triangular_solve": lambda a, b, c: jax.scipy.linalg.solve_triangular(a, b, lower=True),
    "triangular_solve_grad":
        jax.grad(lambda a, b, c: (jax.scipy.linalg.solve_triangular(a, b, lower=True) * c).sum(), (0, 1)),
}


def call_on_matrices():
    weights, given = jax.tree.map(jnp.asarray, optimizer_inputs(folder, workload))
    function = CALLS[workload.removesuffix("_float64")]

    @jax.jit
    def call(*operands):
        result = function(*operands)
        return result, jax.tree.leaves(result)[0][0, 0]

    serve_function(lambda _, *operands: call(*operands), [None], [(weights["a"], given["b"], given["c"])], versions)


def layer(w, state, x):
    return jax_layers.MODELS[workload](w, x), state


def main():
    spec = drawn_spec(folder, workload)
    model = partial(drawn, spec) if spec else layer if workload in jax_layers.MODELS else MODELS[workload]
    weights, state, batches = start()
    optimizer = optax.sgd(0.05, momentum=0.9) if uses_sgd(workload, spec) else optax.adamw(1e-3, weight_decay=1e-2)

    def loss_of(weights, state, x, y):
        logits, state = model(weights, state, x)
        return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean(), state

    @partial(jax.jit, donate_argnums=(0, 1, 2))
    def train(weights, state, slots, x, y):
        (loss, state), gradients = jax.value_and_grad(loss_of, has_aux=True)(weights, state, x, y)
        updates, slots = optimizer.update(gradients, slots, weights)
        return optax.apply_updates(weights, updates), state, slots, loss

    serve_function(train, (weights, state, optimizer.init(weights)), batches, versions)


if workload == "adam10m":
    adam()
elif workload.endswith("_weights"):
    update_weights()
elif workload.removesuffix("_float64") in CALLS:
    call_on_matrices()
else:
    main()
