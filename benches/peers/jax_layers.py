"""The models of benches/layer_workloads.cpp in JAX: weights by path, x -> logits."""

import jax
import jax.numpy as jnp

IMAGES = ("NHWC", "HWIO", "NHWC")


def head(w, x):
    mean = x.mean(tuple(range(1, x.ndim - 1))) if x.ndim > 2 else x
    return mean @ w["head/kernel"] + w["head/bias"]


def normalized(w, i, x, groups):
    grouped = x.reshape(*x.shape[:-1], groups, -1)
    mean, variance = grouped.mean((1, 2, 4), keepdims=True), grouped.var((1, 2, 4), keepdims=True)
    y = ((grouped - mean) * jax.lax.rsqrt(variance + 1e-3)).reshape(x.shape)
    return y * w[f"norm_{i}/gamma"] + w[f"norm_{i}/beta"]


def group_norm(w, x, groups=8):
    for i in range(3):
        y = jax.lax.conv_general_dilated(x, w[f"conv_{i}/kernel"], (1, 1), "SAME", dimension_numbers=IMAGES)
        x = jax.nn.relu(normalized(w, i, y, groups))
    return head(w, x)


def instance_norm(w, x):
    return group_norm(w, x, 64)


def separable_conv(w, x):
    for i in range(3):
        kernel = w[f"conv_{i}/depthwise_kernel"]
        y = jax.lax.conv_general_dilated(x, kernel.reshape(3, 3, 1, -1), (1, 1), "SAME", dimension_numbers=IMAGES,
                                         feature_group_count=x.shape[-1])
        point = w[f"conv_{i}/pointwise_kernel"]
        x = jax.nn.relu(y @ point.reshape(point.shape[-2:]) + w[f"conv_{i}/bias"])
    return head(w, x)


def conv_transpose(w, x):
    for i in range(2):
        y = jax.lax.conv_transpose(x, w[f"conv_{i}/kernel"], (2, 2), "SAME", dimension_numbers=IMAGES,
                                   transpose_kernel=True)
        x = jax.nn.relu(y + w[f"conv_{i}/bias"])
    return head(w, x)


def dilated_conv(w, x):
    for i in range(8):
        y = jax.lax.conv_general_dilated(x, w[f"conv_{i}/kernel"], (1, 1), "SAME", rhs_dilation=(i + 1, i + 1),
                                         dimension_numbers=IMAGES)
        x = jax.nn.relu(y + w[f"conv_{i}/bias"])
    return head(w, x)


def rms_norm(w, i, x):
    return x * jax.lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + 1e-6) * w[f"norm_{i}/gamma"]


def swiglu(w, x):
    for i in range(4):
        gate, value = jnp.split(rms_norm(w, i, x) @ w[f"gate_{i}/kernel"], 2, -1)
        x = x + (jax.nn.silu(gate) * value) @ w[f"down_{i}/kernel"]
    return head(w, x)


def rotary(x):
    half = x.shape[-1] // 2
    angles = jnp.arange(x.shape[1])[:, None] * 10000.0 ** (-jnp.arange(half) / half)
    sine, cosine = jnp.sin(angles)[:, None].astype(x.dtype), jnp.cos(angles)[:, None].astype(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * cosine - b * sine, b * cosine + a * sine], -1)


def grouped_attention(w, x):
    rows, length, width = x.shape
    for i in range(4):
        y = rms_norm(w, i, x)
        q, k, v = ((y @ w[f"attention_{i}/{name}/kernel"]).reshape(rows, length, -1, width // 8)
                   for name in ("query", "key", "value"))
        y = jax.nn.dot_product_attention(rotary(q), rotary(k), v, is_causal=True).reshape(x.shape)
        x = x + y @ w[f"attention_{i}/out/kernel"]
    return head(w, x)


def gru(w, x):
    x = x.transpose(1, 0, 2)
    for name in ("gru_0", "gru_1"):
        joint = x @ w[name + "/kernel"] + w[name + "/bias"]

        def cell(h, u, recurrent=w[name + "/recurrent_kernel"], bias=w[name + "/recurrent_bias"]):
            z, r, n = jnp.split(u, 3, -1)
            hz, hr, hn = jnp.split(h @ recurrent + bias, 3, -1)
            z = jax.nn.sigmoid(z + hz)
            h = z * h + (1 - z) * jnp.tanh(n + jax.nn.sigmoid(r + hr) * hn)
            return h, h

        _, x = jax.lax.scan(cell, jnp.zeros((x.shape[1], 256), x.dtype), joint)
    return head(w, x[-1])


MODELS = {f.__name__: f for f in (group_norm, instance_norm, separable_conv, conv_transpose, dilated_conv, swiglu,
                                  grouped_attention, gru)}
