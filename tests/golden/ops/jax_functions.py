"""Each op of Lockstep as a function on JAX arrays.

Most are jax.lax's of the same name. An entry of OPS is a function of the operands and, by keyword, the attributes.
"""


import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def dtype_of(attr):
    return jnp.dtype(attr["dtype"])


def number(attr):
    return float(attr["double"]) if isinstance(attr, dict) else attr





# ---- windows and convolutions: [N, spatial..., C], kernels [window..., C / groups, O]


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


def conv_kernel_grad(x, y, *, window, groups, **attrs):
    kernel = jnp.zeros((*window, x.shape[-1] // groups, y.shape[-1]), x.dtype)
    return jax.vjp(lambda kernel: conv(x, kernel, groups=groups, **attrs), kernel)[1](y)[0]


def around(values, outer):
    return (outer, *values, outer)


def plane_size(x):
    return int(np.prod(x.shape[1:-1]))


def window_max(x, *, window, strides, padding):
    """Places of the plane under each window as a constant; the first largest of them that are inside."""
    plane = np.arange(int(np.prod(x.shape[1:-1]))).reshape(x.shape[1:-1])
    plane = np.pad(plane, padding, constant_values=-1)
    counts = [(n - w) // s + 1 for n, w, s in zip(plane.shape, window, strides)]
    places = np.empty((*counts, *window), np.int64)
    for out in np.ndindex(*counts):
        for offset in np.ndindex(*window):
            places[out + offset] = plane[tuple(o * s + f for o, s, f in zip(out, strides, offset))]
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
    init = lowest
    values = lax.reduce_window(
        x, np.asarray(init, x.dtype), lax.max, around(window, 1), around(strides, 1), around(map(tuple, padding), (0, 0))
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


def window_sum(x, *, window, strides, padding):
    return lax.reduce_window(
        x,
        np.zeros((), x.dtype),
        lax.add,
        around(window, 1),
        around(strides, 1),
        around([tuple(p) for p in padding], (0, 0)),
    )


def window_spread(y, *, spatial, **attrs):
    x = jax.ShapeDtypeStruct((y.shape[0], *spatial, y.shape[-1]), y.dtype)
    return jax.linear_transpose(lambda x: window_sum(x, **attrs), x)(y)[0]


# ---- rows and places


def gather_rows(table, indices):
    return jnp.take(table, indices, axis=0, mode="clip")


def scatter_add_rows(indices, updates, *, rows):
    shape = (rows, *updates.shape[indices.ndim :])
    return jnp.zeros(shape, updates.dtype).at[jnp.clip(indices, 0, rows - 1)].add(updates)


def take_along_axis(x, indices, *, axis):
    # A negative index would count from the end.
    return jnp.take_along_axis(x, jnp.clip(indices, 0, x.shape[axis] - 1), axis=axis, mode="clip")


def scatter_add_along_axis(indices, updates, *, axis, size):
    shape = list(updates.shape)
    shape[axis] = size
    places = list(np.indices(updates.shape, sparse=True))
    places[axis] = jnp.clip(indices, 0, size - 1)
    return jnp.zeros(shape, updates.dtype).at[tuple(places)].add(updates)


def dot_general(a, b, *, contract, batch):
    return lax.dot_general(a, b, (contract, batch), precision=lax.Precision.HIGHEST)


# ---- linear algebra


def symmetric(a, lower):
    half = jnp.tril(a) if lower else jnp.triu(a)
    return half + jnp.swapaxes(half - half * jnp.eye(a.shape[-1], dtype=a.dtype), -1, -2)


def signs(u):
    """What makes positive the first element of each column that has at least 0.7 of the largest magnitude."""
    if 0 in u.shape:
        return jnp.ones((*u.shape[:-2], 1, u.shape[-1]), u.dtype)
    size = jnp.abs(u)
    first = jnp.argmax(size >= 0.7 * jnp.max(size, -2, keepdims=True, initial=0), -2, keepdims=True)
    return lax.stop_gradient(jnp.where(jnp.take_along_axis(u, first, -2) < 0, -1, 1).astype(u.dtype))


def svd(a, *, full_matrices, compute_uv):
    if not compute_uv:
        return jnp.linalg.svd(a, compute_uv=False)
    u, s, vh = jnp.linalg.svd(a, full_matrices=False)
    sign = signs(u)
    u, vh = u * sign, vh * jnp.swapaxes(sign, -1, -2)
    if full_matrices:
        k = s.shape[-1]
        if u.shape[-2] > k:
            u = jnp.concatenate([u, lax.linalg.qr(u, full_matrices=True)[0][..., k:]], -1)
        if vh.shape[-1] > k:
            more = lax.linalg.qr(jnp.swapaxes(vh, -1, -2), full_matrices=True)[0][..., k:]
            vh = jnp.concatenate([vh, jnp.swapaxes(more, -1, -2)], -2)
    return u, s, vh


def eigh(a, *, lower):
    w, v = jnp.linalg.eigh(symmetric(a, lower), symmetrize_input=False)
    return w, v * signs(v)


def fft(x, *, kind, lengths):
    """XLA takes three dimensions at most; the others are complex transforms on the complex side."""

    def others(y, kind):
        for dim in range(-len(lengths), -3):
            y = jnp.moveaxis(lax.fft(jnp.moveaxis(y, dim, -1), kind, (y.shape[dim],)), -1, dim)
        return y

    last = tuple(lengths[-3:])
    if kind == "irfft":
        return lax.fft(others(x, "ifft"), kind, last)
    return others(lax.fft(x, kind, last), "fft" if kind == "rfft" else kind)


# ---- random


def over_keys(f, keys, *others):
    for _ in range(keys.ndim):
        f = jax.vmap(f)
    return f(keys, *others)


def random_bits(keys, *block, shape, width, cut=None):
    dtype = jnp.dtype(f"uint{width}")
    if cut is None:
        return over_keys(lambda key: jax.random.bits(key, shape, dtype), keys)

    def draw(key):
        # The blocks of the larger array, which samples number below 8, one after the other.
        local = [shape[cut], *shape[:cut], *shape[cut + 1 :]]
        bits = jax.random.bits(key, (8 * local[0], *local[1:]), dtype)
        return jnp.moveaxis(lax.dynamic_slice_in_dim(bits, block[0] * local[0], local[0]), 0, cut)

    return over_keys(draw, keys)


# ---- replicas


def all_gather_invariant(x, *, axis, dim):
    return lax.all_gather(x, axis, axis=dim, tiled=True, to="invarying")


def extreme_over(reduce):
    """pmax and pmin have no derivative in JAX: the largest of what is gathered has."""

    def function(x, *, axes):
        for axis in axes:
            x = reduce(lax.all_gather(x, axis, to="invarying"), axis=0)
        return x

    return function


def map_of_rows(f, x, axes, sizes, layouts):
    """A map over one axis that cuts dimension 0, as a vmap of that name."""
    ((axis,), (size,)) = axes, sizes
    cut = [lay == [axis] for lay in layouts["in"]]
    whole = [lay == [axis] for lay in layouts["out"]]
    blocks = [a.reshape(size, a.shape[0] // size) if c else a for a, c in zip(x, cut)]
    over = jax.vmap(f, [0 if c else None for c in cut], tuple(0 if w else None for w in whole), axis_name=axis)
    return [y.reshape(y.shape[0] * y.shape[1]) if w else y for y, w in zip(over(*blocks), whole)]


def pmap(*x, body, axes, sizes, devices, **layouts):
    del devices
    mesh = jax.sharding.Mesh(np.array(jax.devices()[: int(np.prod(sizes))]).reshape(sizes), axes)

    def specs(lists):
        return tuple(jax.sharding.PartitionSpec(*[axis or None for axis in axes]) for axes in lists)

    f = interpreted(body["function"])
    if any(0 in a.shape for a in x):
        # XLA's partitioner refuses arrays without elements.
        return map_of_rows(f, x, axes, sizes, layouts)
    return jax.shard_map(f, mesh=mesh, in_specs=specs(layouts["in"]), out_specs=specs(layouts["out"]))(*x)


OPS = {
    "abs": jnp.abs,
    "round": lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN),
    "log2": jnp.log2,
    "maximum": lax.max,
    "minimum": lax.min,
    "equal": lax.eq,
    "not_equal": lax.ne,
    "greater": lax.gt,
    "greater_equal": lax.ge,
    "less": lax.lt,
    "less_equal": lax.le,
    "fma": lambda a, b, c: a * b + c,
    "convert": lambda x, *, dtype: lax.convert_element_type(x, dtype_of(dtype)),
    "bitcast_convert": lambda x, *, dtype: lax.bitcast_convert_type(x, dtype_of(dtype)),
    "full": lambda *, dtype, shape, value: lax.full(shape, number(value), dtype_of(dtype)),
    "iota": lambda *, dtype, shape, dim: lax.broadcasted_iota(dtype_of(dtype), shape, dim),
    "reshape": lambda x, *, shape: lax.reshape(x, shape),
    "broadcast_in_dim": lambda x, *, shape, dims: lax.broadcast_in_dim(x, shape, dims),
    "slice": lambda x, *, start, limit, strides: lax.slice(x, start, limit, strides),
    "dynamic_slice": lambda x, *index, sizes: lax.dynamic_slice(x, index, sizes),
    "dynamic_update_slice": lambda x, update, *index: lax.dynamic_update_slice(x, update, index),
    "pad": lambda x, value, *, low, high, interior: lax.pad(x, value, list(zip(low, high, interior))),
    "concatenate": lambda *x, dim: lax.concatenate(x, dim),
    "reverse": lambda x, *, dims: lax.rev(x, dims),
    "argmax": lambda x, *, axis, dtype: lax.argmax(x, axis, dtype_of(dtype)),
    "argmin": lambda x, *, axis, dtype: lax.argmin(x, axis, dtype_of(dtype)),
    "gather_rows": gather_rows,
    "scatter_add_rows": scatter_add_rows,
    "take_along_axis": take_along_axis,
    "scatter_add_along_axis": scatter_add_along_axis,
    "dot_general": dot_general,
    "conv": conv,
    "conv_input_grad": conv_input_grad,
    "conv_kernel_grad": conv_kernel_grad,
    "window_max": window_max,
    "window_gather": window_gather,
    "window_scatter": window_scatter,
    "window_sum": window_sum,
    "window_spread": window_spread,
    "cholesky": lambda a: lax.linalg.cholesky(symmetric(a, True), symmetrize_input=False),
    "triangular_solve": lax.linalg.triangular_solve,
    "lu": lax.linalg.lu,
    "qr": lambda a, *, full_matrices: lax.linalg.qr(a, full_matrices=full_matrices),
    "svd": svd,
    "eigh": eigh,
    "pinv": lambda a, *, rtol: jnp.linalg.pinv(a, rtol=number(rtol)),
    "fft": fft,
    "random_bits": random_bits,
    "random_fold_in": lambda keys, data: over_keys(jax.random.fold_in, keys, data),
    "random_wrap": lambda words: jax.random.wrap_key_data(words, impl="threefry2x32"),
    "random_unwrap": jax.random.key_data,
    "pvary": lambda x, *, axes: lax.pcast(x, tuple(axes), to="varying"),
    "psum": lambda x, *, axes: lax.psum(x, tuple(axes)),
    "pmax": extreme_over(jnp.max),
    "pmin": extreme_over(jnp.min),
    "all_gather": lambda x, *, axis, dim: lax.all_gather(x, axis, axis=dim, tiled=True),
    "all_gather_invariant": all_gather_invariant,
    "psum_scatter": lambda x, *, axis, dim: lax.psum_scatter(x, axis, scatter_dimension=dim, tiled=True),
    "axis_index": lambda *, axis: lax.axis_index(axis),
    "pmap": pmap,
}


def apply(op, attrs, operands):
    function = OPS.get(op) or getattr(lax, op)
    results = function(*operands, **attrs)
    return tuple(results) if isinstance(results, (tuple, list)) else (results,)


def interpreted(function):
    """A sub-function of the dump."""

    def f(*arguments):
        values = dict(zip(function["inputs"], arguments))
        for equation in function["equations"]:
            results = apply(equation["op"], equation["attrs"], [values[i] for i in equation["inputs"]])
            values.update(zip(equation["outputs"], results))
        return tuple(values[i] for i in function["outputs"])

    return f


def function_of(case):
    return lambda *operands: apply(case["op"], case["attrs"], operands)
