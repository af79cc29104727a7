"""Special functions that are not jax.lax's of the same name. One is mpmath's (pip install mpmath)."""

import jax
import jax.numpy as jnp
from jax import lax


def number(attr):
    return float(attr["double"]) if isinstance(attr, dict) else attr


def in_wide(function):
    """A function that has no 16-bit floats."""

    def f(*x):
        wide = [operand.astype(jnp.promote_types(operand.dtype, jnp.float32)) for operand in x]
        return function(*wide).astype(x[0].dtype)

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


def expn(x, *, n):
    """JAX's, whose derivative is one of functions of an array n alone."""
    if n == 0:
        return in_wide(lambda wide: jnp.exp(-wide) / wide)(x)

    @jax.custom_jvp
    def function(wide):
        return jax.scipy.special.expn(n, wide)

    function.defjvp(lambda wide, dwide: (function(*wide), -expn(wide[0], n=n - 1) * dwide[0]))
    return in_wide(function)(x)


def hyp2f1_by_mpmath(a, b, c, x):
    """mpmath's: XLA takes minutes to compile JAX's for each sample. The derivative is that by x."""
    import mpmath
    import numpy as np

    def of_arrays(*operands):
        one = lambda *z: float(mpmath.hyp2f1(*(mpmath.mpf(float(v)) for v in z)))
        return np.vectorize(one, otypes=[float])(*operands)

    @jax.custom_jvp
    def function(a, b, c, x):
        wide = [operand.astype(float) for operand in (a, b, c, x)]
        result = jax.ShapeDtypeStruct(x.shape, float)
        return jax.pure_callback(of_arrays, result, *wide, vmap_method="broadcast_all")

    @function.defjvp
    def of_x(primals, tangents):
        a, b, c, x = (operand.astype(float) for operand in primals)
        slope = a * b / c * function(a + 1, b + 1, c + 1, x)
        return function(*primals), slope * tangents[3]

    wide = [operand.astype(float) for operand in (a, b, c, x)]
    return function(*wide).astype(x.dtype)


SPECIAL = {
    "bessel_j0": lambda x: bessel_j(x, 0),
    "bessel_j1": lambda x: bessel_j(x, 1),
    "bessel_jn": lambda x, *, n: bessel_j(x, n),
    "cos_integral": in_wide(lambda x: jax.scipy.special.sici(x)[1]),
    "dawsn": in_wide(jax.scipy.special.dawsn),
    "erfcx": in_wide(jax.scipy.special.erfcx),
    "exp1": in_wide(jax.scipy.special.exp1),
    "expi": in_wide(jax.scipy.special.expi),
    "expn": expn,
    "fresnel_c": in_wide(lambda x: jax.scipy.special.fresnel(x)[1]),
    "fresnel_s": in_wide(lambda x: jax.scipy.special.fresnel(x)[0]),
    "hyp1f1": in_wide(jax.scipy.special.hyp1f1),
    "hyp2f1": hyp2f1_by_mpmath,
    "owens_t": in_wide(jax.scipy.special.owens_t),
    "sin_integral": in_wide(lambda x: jax.scipy.special.sici(x)[0]),
    "spence": in_wide(jax.scipy.special.spence),
    "zeta": zeta,
}
