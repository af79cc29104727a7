"""Writes values.txt: what functions of keras.quantizers and keras.ops.ctc_decode make of some numbers, a line each of name
and numbers, for keras_values_test.cpp. Operands are `spread`, which both sides know.

    python tests/golden/keras/keras_values.py      needs Keras 3.15.1 and JAX 0.10.2
"""

import os
import pathlib

os.environ["KERAS_BACKEND"] = "jax"

import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp
import keras
import numpy as np
from keras.src.backend.common import dtypes

dtypes.BIT64_TO_BIT32_DTYPE["float64"] = "float64"  # Keras computes some things in float32 otherwise

keras.config.set_floatx("float64")
Q = keras.quantizers


def spread(*shape, seed=1, dtype="float64"):
    x = (np.arange(int(np.prod(shape)), dtype=np.uint64) * 2654435761 + seed) % 2**32
    for _ in range(2):
        x ^= x >> 16
        x = x * 0x45D9F3B % 2**32
    x ^= x >> 16
    return jnp.asarray((x.astype(np.float64) / 2**31 - 1).reshape(shape), dtype)


def fake(x, low, high, **options):
    """With the derivatives of the sum of the result times cos(0), cos(1), ..."""

    def total(x, low, high):
        y = Q.fake_quant_with_min_max_vars(x, low, high, **options)
        return jnp.sum(y * jnp.cos(jnp.arange(y.size)).reshape(y.shape)), y

    (_, y), slopes = jax.value_and_grad(total, (0, 1, 2), has_aux=True)(x, low, high)
    return [y, *slopes]


def float8(x, form):
    return [Q.quantize_and_dequantize(x, jnp.asarray(0.37), form, "float64")]


def float8_numbers():
    x = np.concatenate([np.arange(256) * 2.0**-12, np.arange(1, 256) * 2.3, [1e4, 6e4, 1e6]])
    return jnp.asarray(np.concatenate([x, -x]))


def nibbles(x, axis):
    packed, _, extent = Q.pack_int4(x, axis)
    return [packed, Q.unpack_int4(packed, extent, axis)]


def history(x, old):
    return [Q.compute_float8_amax_history(x, old)]


def decoded(x, lengths, **options):
    return list(keras.ops.ctc_decode(x, lengths, mask_index=0, **options))


def cases():
    x = spread(3, 5)
    ints = jnp.round(spread(5, 3) * 8).clip(-8, 7).astype("int8")
    frames = jnp.asarray([6, 4, 1], "int32")
    yield "abs_max", Q.abs_max_quantize(x, -1)
    yield "abs_max/all", Q.abs_max_quantize(x, (0, 1), value_range=(-7, 7))
    yield "abs_max/grouped", Q.abs_max_quantize_grouped_with_zero_point(spread(7, 3), 3)
    yield "fake", fake(x, jnp.asarray(-0.63), jnp.asarray(0.55), num_bits=4)
    yield "fake/narrow", fake(x, jnp.asarray(-0.2), jnp.asarray(0.9), narrow_range=True)
    low, high = -0.5 - 0.3 * spread(5, seed=2), 0.6 + 0.2 * spread(5, seed=3)
    yield "fake/channels", fake(x, low, high, num_bits=3, axis=1)
    yield "float8/e4m3fn", float8(float8_numbers(), "float8_e4m3fn")
    yield "float8/e5m2", float8(float8_numbers(), "float8_e5m2")
    yield "float8/scale", [Q.compute_float8_scale(jnp.asarray(v), jnp.asarray(0.3), 448.0, 1) for v in (2.5, 0.0, jnp.inf)]
    yield "float8/history", history(x, jnp.arange(4.0))
    yield "int4", nibbles(ints, 0)
    yield "int4/columns", nibbles(ints, 1)
    logits = jnp.repeat(3 * spread(3, 3, 4), 2, 1)
    yield "ctc/greedy", decoded(logits, frames)
    yield "ctc/greedy/all", decoded(logits, frames, merge_repeated=False)
    yield "ctc/beam", decoded(logits, frames, strategy="beam_search", beam_width=40, top_paths=3)
    yield "ctc/beam/narrow", decoded(logits, frames, strategy="beam_search", beam_width=3, top_paths=2)


def main():
    lines = []
    for name, results in cases():
        numbers = [repr(float(v)) for result in results for v in np.ravel(result)]
        lines.append(" ".join([name, *numbers]))
    pathlib.Path(__file__).with_name("values.txt").write_text("\n".join(lines) + "\n")
    print(f"{len(lines)} lines")


if __name__ == "__main__":
    main()
