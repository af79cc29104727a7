"""Each op of Lockstep as a function on JAX arrays.

Most are jax.lax's of the same name. An entry of OPS is a function of the operands and, by keyword, the attributes.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jax._src.random import core as jax_random

from jax_special import SPECIAL, number
from jax_windows import (
    conv, conv_input_grad, conv_kernel_grad, window_gather, window_max, window_scatter, window_spread, window_sum)


def dtype_of(attr):
    return jnp.dtype(attr["dtype"])


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


def gather(x, indices, *, slice_sizes, mode, **numbers):
    numbers = lax.GatherDimensionNumbers(**{name: tuple(dims) for name, dims in numbers.items()})
    return lax.gather(x, indices, numbers, slice_sizes, mode=mode, fill_value=0)


def scatter(function):
    def scattered(x, indices, updates, *, mode, **numbers):
        numbers = lax.ScatterDimensionNumbers(**{name: tuple(dims) for name, dims in numbers.items()})
        return function(x, indices, updates, numbers, mode=mode)

    return scattered


def scatter_extreme(function):
    """JAX's derivative forgets the mode: indices are clipped beforehand."""

    def scattered(x, indices, updates, *, mode, **numbers):
        if mode == "clip":
            window = np.ones(x.ndim, int)
            inside = numbers["inserted_window_dims"] + numbers["operand_batching_dims"]
            window[[d for d in range(x.ndim) if d not in inside]] = [updates.shape[d] for d in numbers["update_window_dims"]]
            last = (np.array(x.shape, int) - window)[np.array(numbers["scatter_dims_to_operand_dims"], int)]
            indices = jnp.clip(indices.astype(np.int64), 0, last)
        return scatter(function)(x, indices, updates, mode=mode, **numbers)

    return scattered


def scatter_mul(x, indices, updates, **attrs):
    """JAX's, which has no derivative where indices repeat; that is of x times the product as a sum of logarithms."""
    function = jax.custom_jvp(lambda *operands: scatter(lax.scatter_mul)(*operands, **attrs))

    @function.defjvp
    def _(primals, tangents):
        x, indices, updates = primals
        is_complex = jnp.iscomplexobj(x)
        signs = jnp.ones_like(updates) if is_complex else jnp.sign(updates)
        signs = scatter(lax.scatter_mul)(jnp.ones_like(x), indices, signs, **attrs)

        def product(x, updates):
            logarithms = jnp.log(updates if is_complex else jnp.abs(updates))
            return x * signs * jnp.exp(scatter(lax.scatter_add)(jnp.zeros_like(x), indices, logarithms, **attrs))

        return function(*primals), jax.jvp(product, (x, updates), (tangents[0], tangents[2]))[1]

    return function(x, indices, updates)


def linear_recurrence(a, b, *, axis, reverse):
    a, b = jnp.moveaxis(a, axis, 0), jnp.moveaxis(b, axis, 0)

    def step(y, ab):
        y = ab[0] * y + ab[1]
        return y, y

    return jnp.moveaxis(lax.scan(step, jnp.zeros_like(b[:1].sum(0, dtype=b.dtype)), (a, b), reverse=reverse)[1], 0, axis)


def dot_general(a, b, *, contract, batch, dtype=None):
    return lax.dot_general(a, b, (contract, batch), lax.Precision.HIGHEST, jnp.float32 if dtype else None)


# ---- attention


class Logits:
    """The logits [B, N, T, S] of the seen keys, and what else attention is made of, in at least float32."""

    def __init__(self, q, k, v, bias, mask, scale, window):
        self.scale, self.shape = number(scale), (q.shape[0], q.shape[2], q.shape[1], k.shape[1])
        self.q, self.k, self.v = self.wide(q), self.repeated(k), self.repeated(v)
        t, s = np.ogrid[: self.shape[2], : self.shape[3]]
        left, right = window
        inside = (True if left < 0 else s >= t - left) & (True if right < 0 else s <= t + right)
        self.seen = jnp.broadcast_to(mask & inside, self.shape)
        self.any = self.seen.any(-1, keepdims=True)
        logits = self.scale * self.products(self.q, self.k) + self.wide(bias)
        self.logits = jnp.where(self.seen, logits, -0.7 * float(np.finfo(np.float32).max))

    def wide(self, x):
        return x.astype(jnp.promote_types(x.dtype, np.float32))

    def repeated(self, x):
        return jnp.repeat(self.wide(x), self.shape[1] // x.shape[2] if x.shape[2] else 1, axis=2)

    def products(self, a, b):
        return jnp.einsum("btnh,bsnh->bnts", a, b, precision="highest")

    def mean(self, p, v):
        return jnp.einsum("bnts,bsnh->btnh", p, v, precision="highest")

    def probabilities(self):
        """Of the logits, not of the saved log-sum-exp: beside large ones that has lost their sum."""
        p = jax.nn.softmax(self.logits, -1)
        return jnp.where(self.any, jnp.where(self.seen, p, 0), 1 / self.shape[3])


def attention(q, k, v, bias, mask, *, scale, window):
    rows = Logits(q, k, v, bias, mask, scale, window)
    lse = jax.nn.logsumexp(rows.logits, -1)
    return rows.mean(jax.nn.softmax(rows.logits, -1), rows.v).astype(q.dtype), jnp.moveaxis(lse, 1, 2)


def attention_tangent(q, k, v, bias, mask, out, lse, dq, dk, dv, dbias, *, scale, window):
    rows = Logits(q, k, v, bias, mask, scale, window)
    p = rows.probabilities()
    moved = rows.products(rows.wide(dq), rows.k) + rows.products(rows.q, rows.repeated(dk))
    ds = jnp.where(rows.seen, rows.scale * moved + rows.wide(dbias), 0)
    dlse = jnp.moveaxis((p * ds).sum(-1), 1, 2)
    dout = rows.mean(p * ds, rows.v) + rows.mean(p, rows.repeated(dv)) - dlse[..., None] * rows.wide(out)
    return dout.astype(q.dtype), dlse


def attention_grad(q, k, v, bias, mask, out, lse, out_bar, lse_bar, **attrs):
    def tangent(*moving):
        return attention_tangent(q, k, v, bias, mask, out, lse, *moving, **attrs)

    return jax.linear_transpose(tangent, q, k, v, bias)((out_bar, lse_bar))


# ---- control flow and functions with rules of their own


def scan(*x, body, length, consts, carries, reverse, unroll):
    f, fixed = interpreted(body["function"]), x[:consts]

    def step(carry, rows):
        y = f(*fixed, *carry, *rows)
        return y[:carries], y[carries:]

    carry, ys = lax.scan(step, x[consts : consts + carries], x[consts + carries :], length, reverse, unroll)
    return *carry, *ys


def while_loop(*x, cond, body, cond_consts, body_consts):
    of_cond, of_body, carry = x[:cond_consts], x[cond_consts:][:body_consts], x[cond_consts + body_consts :]
    until, step = interpreted(cond["function"]), interpreted(body["function"])
    return lax.while_loop(lambda c: until(*of_cond, *c)[0], lambda c: step(*of_body, *c), carry)


def cond(index, *x, **branches):
    return lax.switch(index, [interpreted(branches[f"branch{i}"]["function"]) for i in range(len(branches))], *x)


def custom_jvp(*x, body, jvp, arguments):
    f, rule, closed = interpreted(body["function"]), interpreted(jvp["function"]), x[arguments:]
    g = jax.custom_jvp(lambda *x: f(*x, *closed))

    @g.defjvp
    def _(primals, tangents):
        moving = [t for p, t in zip(primals, tangents) if jnp.issubdtype(p.dtype, jnp.inexact)]
        results = rule(*primals, *closed, *moving)
        return results[: len(results) // 2], results[len(results) // 2 :]

    return g(*x[:arguments])


def custom_vjp(*x, body, fwd, bwd, arguments):
    f, closed = interpreted(body["function"]), x[arguments:]
    results = len(body["function"]["outputs"])
    g = jax.custom_vjp(lambda *x: f(*x, *closed))

    def forward(*x):
        y = interpreted(fwd["function"])(*x, *closed)
        return y[:results], y[results:]

    g.defvjp(forward, lambda residuals, y_bar: interpreted(bwd["function"])(*residuals, *y_bar))
    return g(*x[:arguments])


# ---- linear algebra


def adjoint(a):
    return jnp.conj(jnp.swapaxes(a, -1, -2))


def hermitian(a, lower):
    half = jnp.tril(a) if lower else jnp.triu(a)
    return jnp.where(jnp.eye(a.shape[-1], dtype=bool), jnp.real(a), half + adjoint(half))


def signs(u):
    """What makes real and positive the first element of each column that has at least 0.7 of the largest magnitude."""
    if 0 in u.shape:
        return jnp.ones((*u.shape[:-2], 1, u.shape[-1]), u.dtype)
    size = jnp.abs(u)
    first = jnp.argmax(size >= 0.7 * jnp.max(size, -2, keepdims=True, initial=0), -2, keepdims=True)
    deciding = jnp.take_along_axis(u, first, -2)
    if jnp.iscomplexobj(u):
        return jnp.conj(deciding) / jnp.abs(deciding)
    return lax.stop_gradient(jnp.where(deciding < 0, -1, 1).astype(u.dtype))


def svd(a, *, full_matrices, compute_uv):
    if not compute_uv:
        return jnp.linalg.svd(a, compute_uv=False)
    u, s, vh = jnp.linalg.svd(a, full_matrices=False)
    sign = signs(u)
    u, vh = u * sign, vh * adjoint(sign)
    if full_matrices:
        k = s.shape[-1]
        if u.shape[-2] > k:
            u = jnp.concatenate([u, lax.linalg.qr(u, full_matrices=True)[0][..., k:]], -1)
        if vh.shape[-1] > k:
            more = lax.linalg.qr(adjoint(vh), full_matrices=True)[0][..., k:]
            vh = jnp.concatenate([vh, adjoint(more)], -2)
    return u, s, vh


def eigh(a, *, lower):
    w, v = jnp.linalg.eigh(hermitian(a, lower), symmetrize_input=False)
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


def drawn(draw, keys, block, shape, cut):
    """draw(key, shape) for each key; with a cut, the block of the larger array, whose blocks samples number below 8."""
    if cut is None:
        return over_keys(lambda key: draw(key, tuple(shape)), keys)

    def of_block(key):
        local = [shape[cut], *shape[:cut], *shape[cut + 1 :]]
        whole = draw(key, (8 * local[0], *local[1:]))
        return jnp.moveaxis(lax.dynamic_slice_in_dim(whole, block[0] * local[0], local[0]), 0, cut)

    return over_keys(of_block, keys)


def random_bits(keys, *block, shape, width, cut=None):
    return drawn(lambda key, whole: jax.random.bits(key, whole, jnp.dtype(f"uint{width}")), keys, block, shape, cut)


def random_gamma(keys, a, *, log_space):
    """jax.random.gamma without its split of the key for each element."""

    @jax.custom_jvp
    def draw(key, a):
        return jax_random._gamma_one(key, a, log_space)

    @draw.defjvp
    def _(primals, tangents):
        key, a = primals
        x = draw(key, a)
        return x, tangents[1] * random_gamma_grad(a, x, log_space=log_space)

    return over_keys(draw, keys, a)


def random_gamma_grad(a, sample, *, log_space):
    return jax_random._gamma_grad(sample, a, log_space=log_space)


def random_poisson(keys, rate, *, dtype):
    return over_keys(lambda key, rate: jax.random.poisson(key, rate, (), dtype_of(dtype)), keys, rate)


def random_binomial(keys, n, p):
    return over_keys(lambda key, n, p: jax.random.binomial(key, n, p, (), n.dtype), keys, n, p)


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
    "split": lambda x, *, dim, sizes: tuple(lax.split(x, sizes, dim)),
    "reverse": lambda x, *, dims: lax.rev(x, dims),
    "argmax": lambda x, *, axis, dtype: lax.argmax(x, axis, dtype_of(dtype)),
    "argmin": lambda x, *, axis, dtype: lax.argmin(x, axis, dtype_of(dtype)),
    "gather_rows": gather_rows,
    "scatter_add_rows": scatter_add_rows,
    "take_along_axis": take_along_axis,
    "scatter_add_along_axis": scatter_add_along_axis,
    "complex": lambda re, im: lax.complex(re, im),
    "integer_pow": lambda x, *, exponent: lax.integer_pow(x, exponent),
    "sort": lambda *x, axis, num_keys: lax.sort(x, dimension=axis, num_keys=num_keys),
    "linear_recurrence": linear_recurrence,
    "gather": gather,
    "scatter": scatter(lax.scatter),
    "scatter_add": scatter(lax.scatter_add),
    "scatter_mul": scatter_mul,
    "scatter_min": scatter_extreme(lax.scatter_min),
    "scatter_max": scatter_extreme(lax.scatter_max),
    "attention": attention,
    "attention_tangent": attention_tangent,
    "attention_grad": attention_grad,
    "scan": scan,
    "while_loop": while_loop,
    "cond": cond,
    "checkpoint": lambda *x, body, **policy: jax.checkpoint(interpreted(body["function"]))(*x),
    "checkpoint_name": lambda x, *, name: checkpoint_name(x, name),
    "custom_jvp": custom_jvp,
    "custom_vjp": custom_vjp,
    "dot_general": dot_general,
    "conv": conv,
    "conv_input_grad": conv_input_grad,
    "conv_kernel_grad": conv_kernel_grad,
    "window_max": window_max,
    "window_gather": window_gather,
    "window_scatter": window_scatter,
    "window_sum": window_sum,
    "window_spread": window_spread,
    "cholesky": lambda a: lax.linalg.cholesky(hermitian(a, True), symmetrize_input=False),
    "triangular_solve": lax.linalg.triangular_solve,
    "lu": lax.linalg.lu,
    "qr": lambda a, *, full_matrices: lax.linalg.qr(a, full_matrices=full_matrices),
    "svd": svd,
    "eigh": eigh,
    "pinv": lambda a, *, rtol: jnp.linalg.pinv(a, rtol=number(rtol)),
    "fft": fft,
    "random_bits": random_bits,
    "random_split": lambda keys, *block, shape, cut=None: drawn(jax.random.split, keys, block, shape, cut),
    "random_gamma": random_gamma,
    "random_gamma_grad": random_gamma_grad,
    **SPECIAL,
    "random_poisson": random_poisson,
    "random_binomial": random_binomial,
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
    "all_to_all": lambda x, *, axis, split, concat: lax.all_to_all(x, axis, split, concat, tiled=True),
    "ppermute": lambda x, *, axis, pairs: lax.ppermute(x, axis, pairs),
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
    # An order of sums, which JAX does not know: values are the same.
    attrs = {name: value for name, value in case["attrs"].items() if name != "sum_blocks"}
    return lambda *operands: apply(case["op"], attrs, operands)
