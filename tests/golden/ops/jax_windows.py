"""The ops over windows of [N, spatial..., C] as functions on JAX arrays."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def around(values, outer):
    return (outer, *values, outer)


def plane_size(x):
    return int(np.prod(x.shape[1:-1]))


def window_max(x, *, window, strides, padding, dilation=None):
    """Places of the plane under each window, as a constant; of those inside, the first largest."""
    plane = np.arange(int(np.prod(x.shape[1:-1]))).reshape(x.shape[1:-1])
    plane = np.pad(plane, padding, constant_values=-1)
    dilation = dilation or [1] * len(window)
    counts = [(n - (w - 1) * d - 1) // s + 1 for n, w, s, d in zip(plane.shape, window, strides, dilation)]
    places = np.empty((*counts, *window), np.int64)
    for out in np.ndindex(*counts):
        for offset in np.ndindex(*window):
            places[out + offset] = plane[tuple(o * s + f * d for o, s, f, d in zip(out, strides, offset, dilation))]
    places = places.reshape(int(np.prod(counts)), int(np.prod(window)))
    flat = x.reshape(x.shape[0], plane_size(x), x.shape[-1])
    seen = flat[:, np.maximum(places, 0), :]
    inside = jnp.asarray(places >= 0)[None, :, :, None]
    lowest = -jnp.inf if jnp.issubdtype(x.dtype, jnp.floating) else jnp.iinfo(x.dtype).min
    # A padded place loses also against the lowest value there is.
    chosen = jnp.argmax(jnp.where(inside, seen, jnp.asarray(lowest, x.dtype)), axis=2, keepdims=True)
    first_inside = jnp.argmax(inside, axis=2, keepdims=True)
    chosen = jnp.where(jnp.take_along_axis(inside, chosen, 2), chosen, first_inside)
    indices = jnp.take_along_axis(jnp.asarray(places)[None, :, :, None], chosen, 2)[:, :, 0, :]
    shape = (x.shape[0], *counts, x.shape[-1])
    if any(d > 1 for d in dilation):  # JAX has no derivative of a dilated reduce_window.
        values = jnp.take_along_axis(seen, chosen, 2).reshape(shape)
    else:
        values = lax.reduce_window(
            x,
            np.asarray(lowest, x.dtype),
            lax.max,
            around(window, 1),
            around(strides, 1),
            around([tuple(p) for p in padding], (0, 0)),
        )
    return values, indices.reshape(shape).astype(np.int32)


def window_gather(x, indices):
    flat = x.reshape(x.shape[0], plane_size(x), x.shape[-1])
    places = jnp.maximum(indices, 0).reshape(x.shape[0], plane_size(indices), x.shape[-1])
    return jnp.take_along_axis(flat, places, axis=1, mode="clip").reshape(indices.shape)


def window_scatter(indices, y, *, spatial):
    n, c = y.shape[0], y.shape[-1]
    size = int(np.prod(spatial))
    places = jnp.clip(indices.reshape(n, plane_size(y), c), 0, size - 1)
    rows, channels = np.arange(n)[:, None, None], np.arange(c)[None, None, :]
    flat = jnp.zeros((n, size, c), y.dtype).at[rows, places, channels].add(y.reshape(n, plane_size(y), c))
    return flat.reshape(n, *spatial, c)


def window_sum(x, *, window, strides, padding, dilation=None):
    return lax.reduce_window(
        x,
        np.zeros((), x.dtype),
        lax.add,
        around(window, 1),
        around(strides, 1),
        around([tuple(p) for p in padding], (0, 0)),
        window_dilation=around(dilation or [1] * len(window), 1),
    )


def window_spread(y, *, spatial, **attrs):
    x = jax.ShapeDtypeStruct((y.shape[0], *spatial, y.shape[-1]), y.dtype)
    return jax.linear_transpose(lambda x: window_sum(x, **attrs), x)(y)[0]


# ---- convolutions: [N, spatial..., C], kernels [window..., C / groups, O]


def conv(x, kernel, *, strides, padding, dilation, groups):
    spatial = "".join("DHW"[-len(strides) :])
    return lax.conv_general_dilated(
        x,
        kernel,
        strides,
        [tuple(p) for p in padding],
        rhs_dilation=dilation,
        dimension_numbers=("N" + spatial + "C", spatial + "IO", "N" + spatial + "C"),
        feature_group_count=groups,
        precision=lax.Precision.HIGHEST,
    )


def conv_input_grad(y, kernel, *, spatial, groups, **attrs):
    x = jnp.zeros((y.shape[0], *spatial, kernel.shape[-2] * groups), y.dtype)
    return jax.vjp(lambda x: conv(x, kernel, groups=groups, **attrs), x)[1](y)[0]


def conv_kernel_grad(x, y, *, window, groups, dtype=None, **attrs):
    kernel = jnp.zeros((*window, x.shape[-1] // groups, y.shape[-1]), jnp.float32 if dtype else x.dtype)
    return jax.vjp(lambda k: conv(x.astype(k.dtype), k, groups=groups, **attrs), kernel)[1](y.astype(kernel.dtype))[0]
