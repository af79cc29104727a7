"""Special functions that are not jax.lax's of the same name."""

import jax
import jax.numpy as jnp
from jax import lax


def number(attr):
    return float(attr["double"]) if isinstance(attr, dict) else attr


def in_wide(function):
    """A function that has no 16-bit floats."""

    def f(x):
        wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
        return function(wide).astype(x.dtype)

    return f


def bessel_j(x, order):
    return in_wide(lambda wide: jax.scipy.special.bessel_jn(wide, v=order, n_iter=50)[order])(x)


def zeta(q, *, s):
    """JAX's, which has no derivative."""

    def of(s):
        function = jax.custom_jvp(lambda q: lax.zeta(jnp.full_like(q, s), q))
        function.defjvp(lambda q, dq: (function(*q), -s * of(s + 1)(*q) * dq[0]))
        return function

    return of(number(s))(q)


SPECIAL = {
    "bessel_j0": lambda x: bessel_j(x, 0),
    "bessel_j1": lambda x: bessel_j(x, 1),
    "exp1": in_wide(jax.scipy.special.exp1),
    "expi": in_wide(jax.scipy.special.expi),
    "spence": in_wide(jax.scipy.special.spence),
    "zeta": zeta,
}
