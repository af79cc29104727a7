"""The names that the tables' expressions use: JAX's modules, and what JAX itself has no function for."""

import jax
import jax.experimental.ode
import jax.flatten_util
import jax.image
import jax.scipy.optimize
import jax.scipy.sparse.linalg
import jax.numpy as jnp
import jax.scipy as jsp
import numpy as np
from jax import lax, nn
from jax.scipy import special

try:
    import keras_images  # noqa: F401: the lines of images and boxes alone need Keras
except ImportError:
    pass

__all__ = ["jax", "jnp", "jsp", "lax", "nn", "np", "special"]


# ---- losses: a sum of row values and the sum of their weights


def weighted(values, weight=None):
    rows = values.reshape(values.shape[0], -1).mean(1)
    if weight is None:
        return rows.sum(), jnp.asarray(values.shape[0], rows.dtype)
    weight = lax.stop_gradient(weight)
    return jnp.sum(jnp.where(weight == 0, 0, rows) * weight), weight.sum()


def cross_entropy(logits, labels):
    if jnp.issubdtype(labels.dtype, jnp.integer):
        labels = nn.one_hot(labels, logits.shape[-1], dtype=logits.dtype)
        return -jnp.sum(jnp.where(labels == 1, nn.log_softmax(logits), 0), -1)
    return -jnp.sum(labels * nn.log_softmax(logits), -1)


def binary_cross_entropy(logits, labels):
    return -labels * nn.log_sigmoid(logits) - (1 - labels) * nn.log_sigmoid(-logits)


def huber(predictions, targets, delta):
    error = jnp.abs(predictions - targets)
    return jnp.where(error <= delta, error**2 / 2, delta * (error - delta / 2))


def attention_with_residual(query, key, value):
    logits = jnp.einsum("btnh,bsnh->btns", query, key) / jnp.sqrt(query.shape[-1]).astype(query.dtype)
    return jnp.einsum("btns,bsnh->btnh", nn.softmax(logits), value), special.logsumexp(logits, -1)


def sparsemax(x, axis=-1):
    """Keras' (keras.ops.sparsemax on JAX)."""
    falling = -jnp.sort(-x, axis=axis)
    total = jnp.cumsum(falling, axis=axis)
    shape = [1] * x.ndim
    shape[axis] = -1
    support = falling - (total - 1) / jnp.arange(1, x.shape[axis] + 1).reshape(shape) > 0
    tau = (jnp.sum(jnp.where(support, falling, 0), axis=axis, keepdims=True) - 1) / support.sum(axis, keepdims=True)
    return jnp.maximum(x - tau, 0)


# ---- linear algebra


def definite(a):
    return a @ a.conj().mT + jnp.eye(a.shape[-1], dtype=a.dtype)


def signed_svd(a):
    """With the first element of at least 0.7 of the largest magnitude in each column of u real and positive."""
    u, s, vh = jnp.linalg.svd(a, full_matrices=False)
    first = jnp.argmax(jnp.abs(u) >= 0.7 * jnp.max(jnp.abs(u), -2, keepdims=True), -2, keepdims=True)
    sign = jnp.sign(jnp.take_along_axis(u, first, -2)).conj()
    return u * sign, s, vh * sign.conj().mT


def root(a):
    """By eigenvalues, of Hermitian matrices."""
    w, v = jnp.linalg.eigh(a)
    return (v * jnp.sqrt(w).astype(v.dtype)[..., None, :]) @ v.conj().mT


def tridiagonal_solve(lower, diagonal, upper, b):
    m = diagonal.shape[-1]
    below = jnp.eye(m, k=-1, dtype=b.dtype) * lower[..., :, None]
    above = jnp.eye(m, k=1, dtype=b.dtype) * upper[..., :, None]
    return jnp.linalg.solve(below + above + jnp.eye(m, dtype=b.dtype) * (diagonal + 5)[..., :, None], b)


def general(a):
    return a + 4 * jnp.eye(a.shape[-1], dtype=a.dtype)


def cubic_root(x, y):
    """z with z^3 + (x^2 + 1) z = y, which increases in z."""

    def solve(f, z):
        def step(i, z):
            return z - f(z) / (3 * z * z + x * x + 1)

        return lax.fori_loop(0, 60, step, z)

    def f(z):
        return z**3 + (x * x + 1) * z - y

    return lax.custom_root(f, jnp.zeros_like(x), solve, lambda g, b: b / g(jnp.ones_like(b)))


def pendulum(start, a):
    def slope(y, t, a):
        return jnp.stack([y[1], a[0] * jnp.cos(t) - jnp.sin(y[0]) * a[1] - 0.1 * y[1]])

    return jax.experimental.ode.odeint(slope, start, jnp.array([0, 0.5, 0.7, 2]), a, rtol=1e-12, atol=1e-12)


def valley_floor(start):
    """The one minimum of Rosenbrock's function of three numbers that is near, and that it was found."""
    return jnp.ones_like(start), jnp.all(jnp.isfinite(start))


def powers_of(w):
    return [(w * w).sum(-1), (w * w * w).sum(-1), jnp.exp(w).sum(-1)]


def matrix_of(w, v):
    """v exp(w) v^-1."""
    return jnp.linalg.solve(v.mT, (v * jnp.exp(w)[..., None, :]).mT)


def ragged_dot(x, matrices, sizes):
    """What lax.ragged_dot gives, as a sum over groups: sizes that reach beyond the rows are cut."""
    ends = jnp.minimum(jnp.cumsum(sizes), x.shape[0])
    starts = jnp.concatenate([jnp.zeros(1, ends.dtype), ends[:-1]])
    row = jnp.arange(x.shape[0])
    held = (row[None] >= starts[:, None]) & (row[None] < ends[:, None])
    return jnp.einsum("gm,mk,gkn->mn", held.astype(x.dtype), x, matrices)


def larger(a, b):
    first = a[0] >= b[0]
    return jnp.where(first, a[0], b[0]), jnp.where(first, a[1], b[1])


def patches(x, window, strides, padding, lhs, rhs):
    return lax.conv_general_dilated_patches(
        x, window, strides, padding, lhs, rhs, dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


# ---- windows and convolutions: [N, spatial..., C], kernels [window..., C / groups, O]


def conv(x, kernel, strides, padding, lhs=None, rhs=None, groups=1, batch_groups=1):
    spatial = "HW"[-len(strides) :]
    return lax.conv_general_dilated(
        x,
        kernel,
        strides,
        padding,
        lhs_dilation=lhs,
        rhs_dilation=rhs,
        dimension_numbers=("N" + spatial + "C", spatial + "IO", "N" + spatial + "C"),
        feature_group_count=groups,
        batch_group_count=batch_groups,
    )


def conv_transpose(x, kernel, strides, padding, more=None, rhs=None, groups=1):
    """PyTorch's: the gradient of a convolution with that padding, of an input that is `more` longer than it had to be."""
    rank = len(strides)
    rhs, more = rhs or (1,) * rank, more or (0,) * rank
    extents = [
        (n - 1) * s - 2 * p + (k - 1) * d + 1 + m
        for n, s, p, k, d, m in zip(x.shape[1:], strides, padding, kernel.shape, rhs, more)
    ]
    image = jnp.zeros((x.shape[0], *extents, kernel.shape[-2] * groups), x.dtype)
    convolved = lambda v: conv(v, kernel, strides, [(p, p) for p in padding], None, rhs, groups)  # noqa: E731
    return jax.linear_transpose(convolved, image)(x)[0]


def window(x, kind, extents, strides, padding, base_dilation=None, window_dilation=None):
    floats = jnp.issubdtype(x.dtype, jnp.floating)
    limits = jnp.finfo(x.dtype) if floats else jnp.iinfo(x.dtype)
    start, join = {
        "add": (0, lax.add),
        "max": (-np.inf if floats else limits.min, lax.max),
        "min": (np.inf if floats else limits.max, lax.min),
    }[kind]
    start = np.asarray(start, x.dtype)
    return lax.reduce_window(x, start, join, extents, strides, padding, base_dilation, window_dilation)


def mean_of_windows(x, extents, strides, padding):
    sums = window(x, "add", extents, strides, padding)
    return sums / window(jnp.ones_like(x), "add", extents, strides, padding)


# ---- initializers, schedules and optimizers


def truncated_normal(stddev):
    """With this deviation after the cut; JAX's has it before."""
    return nn.initializers.truncated_normal(stddev / 0.87962566103423978)


def half_cosine(fraction):
    return 0.5 * (1 + jnp.cos(jnp.pi * jnp.clip(fraction.astype("float64"), 0, 1)))


def steps(rule, *gradients_and_parameters):
    """The updates of steps along the gradients. rule(n) is step n's: gradient, parameters, two moments -> update, moments."""
    *gradients, parameters = gradients_and_parameters
    first, second, updates = jnp.zeros_like(parameters), jnp.zeros_like(parameters), []
    for n, gradient in enumerate(gradients):
        update, first, second = rule(n)(gradient, parameters, first, second)
        updates.append(update)
        parameters = parameters + update
    return updates


def momentum(decay, nesterov):
    def rule(g, p, m, v):
        m = decay * m + g
        return (g + decay * m if nesterov else m), m, v

    return lambda n: rule


def adam(b1, b2, epsilon):
    def at(n):
        def rule(g, p, m, v):
            m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g**2
            return m / (1 - b1 ** (n + 1)) / (jnp.sqrt(v / (1 - b2 ** (n + 1))) + epsilon), m, v

        return rule

    return at


def lion(b1, b2):
    def rule(g, p, m, v):
        return jnp.sign(b1 * m + (1 - b1) * g), b2 * m + (1 - b2) * g, v

    return lambda n: rule


def decayed(rule, decay):
    def at(n):
        def both(g, p, m, v):
            update, m, v = rule(n)(g, p, m, v)
            return update + decay * p, m, v

        return both

    return at


def scaled(rule, factor):
    def at(n):
        def both(*given):
            update, m, v = rule(n)(*given)
            return factor * update, m, v

        return both

    return at


# ---- special functions where JAX has another value


def zeta(s, q):
    """0 at infinity, infinite at the poles."""
    pole = (q <= 0) & (q == jnp.floor(q))
    return jnp.where(pole, jnp.inf, jnp.where(q == jnp.inf, 0, special.zeta(s, q)))


def relative_entropy(p, q):
    """NaN stays NaN; of an infinite p it is infinite."""
    value = jnp.where((p == jnp.inf) & (q > 0) & jnp.isfinite(q), jnp.inf, special.rel_entr(p, q))
    return jnp.where(jnp.isnan(p) | jnp.isnan(q), jnp.nan, value)
