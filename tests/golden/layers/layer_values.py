#!/usr/bin/env python3
"""Writes values.txt: what layers of Keras, PyTorch and JAX make of some numbers, with gradients.

    python3 tests/golden/layers/layer_values.py

needs JAX 0.10.2, Keras 3.15.1, Flax 0.12.8 and PyTorch 2.15. Everything is float64. Inputs and variables are `filled` with numbers that
tests/golden/layers/catalogue.cpp makes too, where ours are under the same names; variables are named in order of path. Of
each there is the result y for two rows, and the gradients of the sum of y times cos(0), cos(1), ... by all of these.
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
import torch
import torch.nn.functional as F

keras.config.set_floatx("float64")
L = keras.layers


def filled(shape, which):
    places = np.arange(int(np.prod(shape, dtype=int))) * 7919 + 13 + 37 * which
    return (0.7 * (places % 101 / 50 - 1)).reshape(shape)


def of_keras(layer, order):
    """A Keras layer whose weights are our variables of these names."""

    def run(x, v):
        if not layer.built:
            layer.build(x.shape)
        weights = [v[name] for name in order]
        kept = [variable.value for variable in layer.non_trainable_variables]
        return layer.stateless_call(weights, kept, x)[0]

    return run


def spectral(x, v):
    """torch.nn.utils.parametrizations.spectral_norm after one step of its power method."""
    w, u = v["kernel"], torch.tensor(filled((3,), 51))
    with torch.no_grad():
        left = F.normalize(w @ u, dim=0, eps=1e-12)
        right = F.normalize(left @ w, dim=0, eps=1e-12)
    return x @ (w / (left @ w @ right)) + v["bias"]


def heads(y, n):
    return y.reshape(*y.shape[:2], n, -1)


def turned(x, base=10000.0, offset=0):
    half = x.shape[-1] // 2
    angle = torch.outer(torch.arange(x.shape[1]) + float(offset), base ** (-torch.arange(half).double() / half))
    z = torch.complex(x[..., :half], x[..., half:]) * torch.polar(torch.ones_like(angle), angle)[:, None, :]
    return torch.cat([z.real, z.imag], -1)


def attend(q, k, v, mask=None, causal=False):
    y = F.scaled_dot_product_attention(
        *(t.transpose(1, 2) for t in (q, k, v)), attn_mask=mask, is_causal=causal, enable_gqa=True
    )
    return y.transpose(1, 2).flatten(2)


def joint(x, v, n):
    return [heads(t, n) for t in (x @ v["qkv/kernel"] + v["qkv/bias"]).chunk(3, -1)]


def out(y, v):
    return y @ v["out/kernel"] + v["out/bias"]


def grouped(x, v):
    q, k, t = (x @ v[f"{name}/kernel"] + v[f"{name}/bias"] for name in ("query", "key", "value"))
    return out(attend(heads(q, 4), heads(k, 2), heads(t, 2), causal=True), v)


def rotated(x, v):
    q, k, t = joint(x, v, 2)
    return out(attend(turned(q), turned(k), t, causal=True), v)


def with_alibi(x, v):
    slopes = torch.tensor([2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8]).double()
    place = torch.arange(4)
    bias = -slopes[:, None, None] * (place[:, None] - place[None, :]).abs()
    return out(attend(*joint(x, v, 4), mask=bias), v)


def with_lengths(x, v):
    held = torch.arange(4)[None, :] < torch.tensor([2, 3])[:, None]
    y = attend(*joint(x, v, 2), mask=held[:, None, None, :])
    return out(y * held[:, :, None], v)


def cross(x, v):
    source = x[:, 1:4] * 0.5
    q, k, t = x @ v["query/kernel"], source @ v["key/kernel"], source @ v["value/kernel"]
    return attend(heads(q, 2), heads(k, 2), heads(t, 2)) @ v["out/kernel"]


def with_mask(x, v):
    place = torch.arange(4).double()
    bias = 0.1 * place[:, None] * place[None, :]
    return out(attend(*joint(x, v, 2), mask=bias.masked_fill(torch.eye(4, dtype=bool), -torch.inf)), v)


def packed(kind, lengths=None, reverse=False, initial=None):
    """torch.nn.LSTM of packed sequences; gates are in the same order but for PyTorch's names."""

    def run(x, v):
        h, c = initial(x) if initial else (torch.zeros(2, 2).double(),) * 2
        rows = []
        lasts = []
        for i in range(2):
            n = lengths[i] if lengths else x.shape[1]
            part = x[i : i + 1, :n].flip(1) if reverse else x[i : i + 1, :n]
            weights = [v["kernel"].T, v["recurrent_kernel"].T, v["bias"], torch.zeros_like(v["bias"])]
            y, hn, cn = torch._VF.lstm(part, (h[None, i : i + 1], c[None, i : i + 1]), weights, True, 1, 0.0, False, False, True)
            y = y.flip(1) if reverse else y
            rows.append(F.pad(y, (0, 0, 0, x.shape[1] - n)))
            lasts.append(torch.cat([hn, cn], 1))
        y = torch.cat(rows)
        return torch.cat([y, torch.cat(lasts)], 1) if initial else y

    return run


def gru_cell(x, h, v, at=""):
    """torch.nn.GRUCell, whose gates are in the order reset, update, new. (Keras' recurrent layers compute in float32.)"""
    size = h.shape[-1]
    order = torch.cat([torch.arange(size, 2 * size), torch.arange(size), torch.arange(2 * size, 3 * size)])
    w, u = v[at + "kernel"][:, order].T, v[at + "recurrent_kernel"][:, order].T
    return torch._VF.gru_cell(x, h, w, u, v[at + "bias"][order], v[at + "recurrent_bias"][order])


def gru_of(x, v, size, at="", reverse=False, lengths=None):
    h, ys = torch.zeros(2, size).double(), [None] * x.shape[1]
    for t in reversed(range(x.shape[1])) if reverse else range(x.shape[1]):
        held = torch.tensor([[lengths is None or t < n] for n in lengths or (0, 0)])
        h = torch.where(held, gru_cell(x[:, t], h, v, at), h)
        ys[t] = torch.where(held, h, torch.zeros_like(h))
    return torch.stack(ys, 1), h


def gru_lengths(x, v):
    y, h = gru_of(x, v, 2, reverse=True, lengths=(1, 2))
    return torch.cat([y, h[:, None]], 1)


def simple(x, v):
    h = torch.zeros(2, 2).double()
    for t in range(x.shape[1]):
        weights = v["kernel"].T, v["recurrent_kernel"].T, v["bias"], torch.zeros(2).double()
        h = torch.where(torch.tensor(MASK[:, t : t + 1]), torch._VF.rnn_tanh_cell(x[:, t], h, *weights), h)
    return h


def two_ways(x, v):
    return torch.cat([gru_of(x, v, 1, "forward/")[0], gru_of(x, v, 1, "backward/", True)[0]], -1)


def channels_first(x):
    return x.movedim(-1, 1)


def channels_last(x):
    return x.movedim(1, -1)


def normalized(groups, epsilon):
    def run(x, v):
        return channels_last(F.group_norm(channels_first(x), groups, v["gamma"], v["beta"], epsilon))

    return run


def additive(scale, q, v, k, seen=True, held=True):
    """Keras' formula in float64: its products are of float32."""
    logits = jnp.sum(scale * jnp.tanh(q[:, :, None] + k[:, None]), -1)
    y = jax.nn.softmax(jnp.where(seen, logits, logits - 1e9)) @ v
    return jnp.where(held, y, 0)


def near(y, expected):
    """y, which is what Keras computes in float32."""
    if not isinstance(y, jax.core.Tracer):
        np.testing.assert_allclose(y, expected(), atol=1e-6)
    return y


def additive_of_keys(x, v):
    keys = x[:, 1:4] * 0.5
    values = jnp.concatenate([keys, keys**2], -1)
    layer = L.AdditiveAttention()
    layer.build([x.shape, values.shape, keys.shape])
    call = lambda: layer.stateless_call([v["scale"]], [], [x, values, keys])[0]
    return near(additive(v["scale"], x, values, keys), call)


def additive_lengths(x, v):
    held = jnp.arange(4)[None, :] < jnp.array([2, 3])[:, None]
    seen = held[:, None, :] & jnp.tril(jnp.ones((4, 4), bool))
    call = lambda: L.AdditiveAttention(use_scale=False)([x, x], mask=[held, held], use_causal_mask=True)
    return near(additive(1, x, x, x, seen, held[:, :, None]), call)


def mgu_of(x, v, units, reset_gate):
    import flax.linen as nn

    gates = ("if", "in"), ("hf", "hn")
    part = lambda name, i: v[name][..., i * units : (i + 1) * units]
    weights = {gates[0][i]: {"kernel": part("kernel", i), "bias": part("bias", i)} for i in range(2)}
    weights |= {gates[1][i]: {"kernel": part("recurrent_kernel", i)} for i in range(2)}
    if reset_gate:
        weights["hn"]["bias"] = v["recurrent_bias"]
    cell, h, ys = nn.MGUCell(units, reset_gate=reset_gate, param_dtype=jnp.float64), jnp.zeros((2, units)), []
    for t in range(x.shape[1]):
        h, y = cell.apply({"params": weights}, h, x[:, t])
        ys.append(y)
    return jnp.stack(ys, 1), h


def mgu_plain(x, v):
    ys, h = mgu_of(x[:, ::-1], v, 2, False)
    return jnp.concatenate([ys[:, ::-1], h[:, None]], 1)


def local(features, kernel, **options):
    import flax.linen as nn

    layer = nn.ConvLocal(features, kernel, param_dtype=jnp.float64, **options)
    return lambda x, v: layer.apply({"params": v}, x)


def conv_lstm_of_keras(layer, x, v):
    """Keras' cell, a step at a time: it computes in float32."""
    cell = layer.cell
    if not cell.built:
        cell.build((x.shape[0], *x.shape[2:]))
    weights = [v[name] for name in ("kernel", "recurrent_kernel", "bias")]
    kept = [variable.value for variable in cell.non_trainable_variables]
    shape = cell.compute_output_shape((x.shape[0], *x.shape[2:]))[0]
    ys, states = [], [np.zeros(shape), np.zeros(shape)]
    for t in range(x.shape[1]):
        y, states = cell.stateless_call(weights, kept, x[:, t], states)[0]
        ys.append(y)
    return np.stack(ys, 1), states


def convolved(x, kernel, strides, padding):
    """x [N, spatial..., C], with Keras' padding."""
    window, ends = kernel.shape[:-2], []
    for size, wide, step in zip(x.shape[1:-1], window, strides):
        total = max((-(-size // step) - 1) * step + wide - size, 0) if padding == "same" else 0
        ends = [total // 2, total - total // 2, *ends]
    convolve = (F.conv1d, F.conv2d, F.conv3d)[len(window) - 1]
    return channels_last(convolve(F.pad(channels_first(x), ends), kernel.movedim((-1, -2), (0, 1)), stride=strides))


def conv_lstm_cells(layer, x, v, reverse=False, lengths=None):
    """The cell of such a Keras layer in float64, with PyTorch's convolutions."""
    strides, ones = layer.cell.strides, (1,) * layer.cell.rank
    steps = torch.stack([convolved(x[:, t], v["kernel"], strides, layer.cell.padding) for t in range(x.shape[1])], 1)
    steps = steps + v.get("bias", 0)
    h = c = torch.zeros(*steps[:, 0].shape[:-1], steps.shape[-1] // 4).double()
    ys = [None] * x.shape[1]
    for t in reversed(range(x.shape[1])) if reverse else range(x.shape[1]):
        i, f, n, o = (steps[:, t] + convolved(h, v["recurrent_kernel"], ones, "same")).chunk(4, -1)
        new_c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(n)
        new_h = torch.sigmoid(o) * torch.tanh(new_c)
        held = torch.tensor([lengths is None or t < k for k in lengths or (0, 0)]).reshape(-1, *[1] * (h.ndim - 1))
        h, c = torch.where(held, new_h, h), torch.where(held, new_c, c)
        ys[t] = torch.where(held, h, torch.zeros_like(h))
    if not reverse and lengths is None:
        arrays = {name: value.detach().numpy() for name, value in v.items()}
        expected, last = conv_lstm_of_keras(layer, x.detach().numpy(), arrays)
        for a, b in ((torch.stack(ys, 1), expected), (h, last[0]), (c, last[1])):
            np.testing.assert_allclose(a.detach().numpy(), b, atol=1e-6)
    return torch.stack(ys, 1), h, c


def conv_lstm_image(x, v):
    ys, *states = conv_lstm_cells(L.ConvLSTM2D(2, (3, 2), strides=(2, 1), padding="same"), x, v)
    return torch.cat([ys, *(s[:, None] for s in states)], 1)


def mel(fft_length, step, rate, bins, window=None, **options):
    """In float64, whose filters Keras has in float32; a signal by itself, as the largest is that of a call."""
    layer = L.MelSpectrogram(fft_length, step, window, sampling_rate=rate, num_mel_bins=bins, **options)
    filters = layer.linear_to_mel_weight_matrix
    layer.linear_to_mel_weight_matrix = lambda **named: filters(dtype="float64", **named)
    return lambda x, v: jnp.stack([layer(row) for row in x])


def mel_filters(x, v):
    return x @ L.MelSpectrogram().linear_to_mel_weight_matrix(4, 9, 800, 20.0, 400.0, dtype="float64")


def conv_lstm_shapes(window, channels, filters, bias=True):
    shapes = {"kernel": (*window, channels, 4 * filters), "recurrent_kernel": (*window, filters, 4 * filters)}
    return {**shapes, "bias": (4 * filters,)} if bias else shapes


MASK = np.array([[(n + t) % 3 != 1 for t in range(3)] for n in range(2)])
ATTENTION = {"out/bias": (4,), "out/kernel": (4, 4), "qkv/bias": (12,), "qkv/kernel": (4, 12)}
LSTM = {"bias": (8,), "kernel": (2, 8), "recurrent_kernel": (2, 8)}
GRU = {"bias": (6,), "kernel": (2, 6), "recurrent_bias": (6,), "recurrent_kernel": (2, 6)}
ONE = {"bias": (3,), "kernel": (2, 3), "recurrent_bias": (3,), "recurrent_kernel": (1, 3)}
HALVES = {f"{way}/{name}": shape for way in ("backward", "forward") for name, shape in ONE.items()}
DENSE = {"bias": (3,), "kernel": (4, 3)}

J, T = "jax", "torch"
CASES = {
    "einsum_dense": (J, (3, 4), {"bias": (2, 3), "kernel": (4, 2, 3)}, of_keras(L.EinsumDense("btf,fhd->bthd", (None, 2, 3), bias_axes="hd"), ("kernel", "bias"))),
    "einsum_dense/dots": (J, (3, 4), {"bias": (4,), "kernel": (4, 4)}, of_keras(L.Dense(4), ("kernel", "bias"))),
    "gated_dense": (J, (3, 4), {"kernel": (4, 8)}, lambda x, v: jax.nn.silu(x @ v["kernel"][:, :4]) * (x @ v["kernel"][:, 4:])),
    "prelu": (T, (3, 4), {"alpha": (4,)}, lambda x, v: F.prelu(x.reshape(6, 4), v["alpha"]).reshape(x.shape)),
    "lora": (J, (4,), {"bias": (3,), "kernel": (4, 3), "lora_a": (4, 2), "lora_b": (2, 3)}, lambda x, v: x @ (jax.lax.stop_gradient(v["kernel"]) + 1.5 * v["lora_a"] @ v["lora_b"]) + v["bias"]),
    "weight_norm": (T, (4,), {**DENSE, "scale": (3,)}, lambda x, v: x @ torch._weight_norm(v["kernel"], v["scale"][None], 1) + v["bias"]),
    "spectral_norm": (T, (4,), DENSE, spectral),
    "conv/causal": (J, (6, 3), {"bias": (3,), "kernel": (3, 3, 3)}, of_keras(L.Conv1D(3, 3, padding="causal", dilation_rate=2), ("kernel", "bias"))),
    "conv/volume": (J, (3, 4, 3, 2), {"bias": (2,), "kernel": (2, 3, 1, 2, 2)}, of_keras(L.Conv3D(2, (2, 3, 1), strides=(1, 2, 1), padding="same"), ("kernel", "bias"))),
    "conv/groups": (J, (4, 3, 4), {"bias": (2,), "kernel": (3, 3, 2, 2)}, of_keras(L.Conv2D(2, 3, groups=2), ("kernel", "bias"))),
    "conv/half": (T, (5, 4, 2), {"bias": (2,), "kernel": (4, 2, 2, 2)}, lambda x, v: channels_last(F.conv2d(channels_first(x), v["kernel"].permute(3, 2, 0, 1), v["bias"], stride=(1, 2), padding=(2, 1)))),
    "conv_transpose": (J, (3, 2, 2), {"bias": (3,), "kernel": (3, 2, 3, 2)}, of_keras(L.Conv2DTranspose(3, (3, 2), strides=2, padding="same"), ("kernel", "bias"))),
    "conv_transpose/valid": (J, (4, 2), {"bias": (2,), "kernel": (3, 2, 2)}, of_keras(L.Conv1DTranspose(2, 3, strides=2), ("kernel", "bias"))),
    "conv_transpose/output_padding": (J, (3, 2, 2), {"bias": (2,), "kernel": (3, 2, 2, 2)}, of_keras(L.Conv2DTranspose(2, (3, 2), strides=(2, 3), padding="same", output_padding=(1, 0)), ("kernel", "bias"))),
    "conv_transpose/half": (T, (3, 2, 2), {"bias": (3,), "kernel": (3, 3, 3, 2)}, lambda x, v: channels_last(F.conv_transpose2d(channels_first(x), v["kernel"].permute(3, 2, 0, 1), v["bias"], stride=2, padding=1, output_padding=1))),
    "conv_transpose/half_even": (T, (4, 2), {"bias": (3,), "kernel": (4, 3, 2)}, lambda x, v: F.conv_transpose1d(x.mT, v["kernel"].permute(2, 1, 0), v["bias"], stride=2, padding=2).mT),
    "conv_transpose/groups": (T, (4, 4), {"bias": (6,), "kernel": (3, 3, 4)}, lambda x, v: F.conv_transpose1d(x.mT, v["kernel"].permute(2, 1, 0), v["bias"], stride=2, groups=2).mT),
    "depthwise_conv": (J, (4, 3, 2), {"bias": (4,), "kernel": (3, 2, 2, 2)}, of_keras(L.DepthwiseConv2D((3, 2), strides=2, depth_multiplier=2, padding="same"), ("kernel", "bias"))),
    "separable_conv": (J, (3, 3, 2), {"bias": (2,), "depthwise_kernel": (3, 3, 2, 2), "pointwise_kernel": (4, 2)}, lambda x, v: of_keras(L.SeparableConv2D(2, 3, depth_multiplier=2, padding="same"), ("depthwise_kernel", "point", "bias"))(x, {**v, "point": v["pointwise_kernel"].reshape(1, 1, 4, 2)})),
    "conv_local": (J, (5, 2), {"bias": (2, 3), "kernel": (2, 6, 3)}, local(3, (3,), strides=2, padding="VALID")),
    "conv_local/image": (J, (3, 4, 2), {"bias": (3, 4, 2), "kernel": (3, 4, 12, 2)}, local(2, (2, 3), kernel_dilation=(1, 2))),
    "group_norm": (T, (3, 2, 4), {"beta": (4,), "gamma": (4,)}, normalized(2, 1e-3)),
    "instance_norm": (T, (3, 2, 2), {"beta": (2,), "gamma": (2,)}, normalized(2, 1e-5)),
    "multi_head_attention/grouped": (T, (4, 4), {"key/bias": (4,), "key/kernel": (4, 4), "out/bias": (4,), "out/kernel": (8, 4), "query/bias": (8,), "query/kernel": (4, 8), "value/bias": (4,), "value/kernel": (4, 4)}, grouped),
    "multi_head_attention/rotary": (T, (4, 4), ATTENTION, rotated),
    "multi_head_attention/alibi": (T, (4, 4), ATTENTION, with_alibi),
    "multi_head_attention/lengths": (T, (4, 4), ATTENTION, with_lengths),
    "multi_head_attention/cross": (T, (4, 4), {f"{name}/kernel": (4, 4) for name in ("key", "out", "query", "value")}, cross),
    "multi_head_attention/masked": (T, (4, 4), ATTENTION, with_mask),
    "additive_attention": (J, (4, 3), {"scale": (3,)}, additive_of_keys),
    "additive_attention/lengths": (J, (4, 3), {}, additive_lengths),
    "lstm/lengths": (T, (3, 2), LSTM, packed("lstm", lengths=(1, 2))),
    "lstm/initial": (T, (3, 2), LSTM, packed("lstm", reverse=True, initial=lambda x: (x[:, 0], x[:, 0] * 0.5))),
    "gru": (T, (3, 2), GRU, lambda x, v: gru_of(x, v, 2)[0]),
    "gru/lengths": (T, (3, 2), GRU, gru_lengths),
    "simple_rnn": (T, (3, 2), {"bias": (2,), "kernel": (2, 2), "recurrent_kernel": (2, 2)}, simple),
    "mgu": (J, (3, 2), {"bias": (6,), "kernel": (2, 6), "recurrent_bias": (3,), "recurrent_kernel": (3, 6)}, lambda x, v: mgu_of(x, v, 3, True)[0]),
    "mgu/plain": (J, (3, 2), {"bias": (4,), "kernel": (2, 4), "recurrent_kernel": (2, 4)}, mgu_plain),
    "conv_lstm/sequence": (T, (3, 4, 2), conv_lstm_shapes((3,), 2, 2), lambda x, v: conv_lstm_cells(L.ConvLSTM1D(2, 3), x, v)[0]),
    "conv_lstm": (T, (3, 4, 3, 2), conv_lstm_shapes((3, 2), 2, 2), conv_lstm_image),
    "conv_lstm/lengths": (T, (3, 4, 2), conv_lstm_shapes((3,), 2, 2, False), lambda x, v: conv_lstm_cells(L.ConvLSTM1D(2, 3, padding="same"), x, v, lengths=(1, 2))[0]),
    "conv_lstm/volume": (T, (2, 2, 3, 2, 1), conv_lstm_shapes((2, 2, 2), 1, 1), lambda x, v: conv_lstm_cells(L.ConvLSTM3D(1, 2, padding="same"), x, v, True)[1]),
    "bidirectional": (T, (3, 2), HALVES, two_ways),
    "global_avg_pool": (T, (3, 2, 2), {}, lambda x, v: F.adaptive_avg_pool2d(channels_first(x), 1)[..., 0, 0]),
    "global_max_pool": (J, (3, 2, 2), {}, of_keras(L.GlobalMaxPooling2D(), ())),
    "adaptive_avg_pool": (T, (5, 4, 2), {}, lambda x, v: channels_last(F.adaptive_avg_pool2d(channels_first(x), (2, 3)))),
    "adaptive_max_pool": (T, (5, 4, 2), {}, lambda x, v: channels_last(F.adaptive_max_pool2d(channels_first(x), (3, 3)))),
    "upsample": (J, (3, 2, 2), {}, of_keras(L.UpSampling2D((2, 3)), ())),
    "resize/nearest": (J, (4, 3, 1), {}, lambda x, v: jax.image.resize(x, (2, 3, 5, 1), "nearest")),
    "resize/linear": (J, (5, 3, 1), {}, lambda x, v: jax.image.resize(x, (2, 3, 5, 1), "linear")),
    "resize/cubic": (J, (5, 4, 1), {}, lambda x, v: jax.image.resize(x, (2, 3, 6, 1), "cubic")),
    "resize/sharp": (J, (7,), {}, lambda x, v: jax.image.resize(x[:, :, None], (2, 4, 1), "linear", antialias=False)),
    "mel_spectrogram": (J, (40,), {}, mel(16, 5, 800, 4, 12)),
    "mel_spectrogram/magnitudes": (J, (30,), {}, mel(15, 7, 2000, 3, min_freq=50.0, max_freq=700.0, mag_exp=1.0, power_to_db=False)),
    "mel_filters": (J, (9,), {}, mel_filters),
    "rotary": (T, (3, 2, 4), {}, lambda x, v: turned(x, 100.0, 2)),
    "sinusoidal_positions": (J, (3, 4), {}, lambda x, v: x * jnp.array([[np.sin(t), np.sin(t / 100), np.cos(t), np.cos(t / 100)] for t in range(3)])),
    "alibi_bias": (J, (6, 2, 3), {}, lambda x, v: x * jnp.array([[[-slope * abs(t + 1 - s) for s in range(3)] for t in range(2)] for slope in (2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8, 2.0**-1, 2.0**-3)])),
}


def numbers(values):
    return " ".join(repr(float(x)) for x in np.ravel(values))


def by_jax(layer, x, variables):
    def total(given, v):
        y = layer(given, v)
        return jnp.sum(y * jnp.cos(jnp.arange(y.size)).reshape(y.shape)), y

    (_, y), gradients = jax.value_and_grad(total, (0, 1), has_aux=True)(jnp.asarray(x), variables)
    return y, *gradients


def by_torch(layer, x, variables):
    x = torch.tensor(x, requires_grad=True)
    variables = {name: torch.tensor(v, requires_grad=True) for name, v in variables.items()}
    y = layer(x, variables)
    torch.sum(y * torch.cos(torch.arange(y.numel()).double()).reshape(y.shape)).backward()
    return y.detach(), x.grad, {name: v.grad for name, v in variables.items()}


def main():
    versions = (jax.__version__, keras.__version__, torch.__version__.split("+")[0])
    if versions != ("0.10.2", "3.15.1", "2.15.0"):
        sys.exit(f"these are JAX, Keras and PyTorch {versions}; the values are those of 0.10.2, 3.15.1 and 2.15.0")
    lines = ["# Layers of JAX 0.10.2, Keras 3.15.1 and PyTorch 2.15.0 in float64, by layer_values.py"]
    for name, (framework, example, shapes, layer) in CASES.items():
        variables = {path: filled(shapes[path], i + 1) for i, path in enumerate(sorted(shapes))}
        run = by_jax if framework == J else by_torch
        if name.startswith("additive_attention"):  # outside of a trace, to be held against Keras
            layer(jnp.asarray(filled((2, *example), 0)), {path: jnp.asarray(v) for path, v in variables.items()})
        y, of_x, of_variables = run(layer, filled((2, *example), 0), variables)
        lines += [f"{name} | {framework}", f" y | {numbers(y)}", f" by x | {numbers(of_x)}"]
        lines += [f" by {path} | {numbers(of_variables[path])}" for path in sorted(shapes)]
    path = pathlib.Path(__file__).parent / "values.txt"
    path.write_text("\n".join(lines) + "\n")
    print(f"{len(CASES)} layers in {path.name}")


if __name__ == "__main__":
    main()
