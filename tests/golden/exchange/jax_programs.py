"""Writes functions as jax.export gives them (<name>.mlir) with inputs and results (<name>.npz: in0, ..., out0, ...) for
tests/exchange/stablehlo_test.cpp; conv_grad and scan also in MLIR's generic form. Run by hand, on the CPU:
python tests/golden/exchange/jax_programs.py (needs jax and numpy). With --check, it runs what a test of ours wrote to
<folder>/<name>.mlir on the inputs and compares: python jax_programs.py --check <folder>."""

import os
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax import export, lax

FOLDER = os.path.dirname(os.path.abspath(__file__))
draw = np.random.default_rng(7)


def floats(*shape):
    return draw.standard_normal(shape).astype(np.float32)


def mlp(w1, b1, w2, b2, x):
    return jax.nn.log_softmax(jax.nn.relu(x @ w1 + b1) @ w2 + b2)


def conv_grad(kernel, x):
    def loss(kernel, x):
        y = lax.conv_general_dilated(x, kernel, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return jnp.sum(jnp.tanh(y) ** 2)

    return jax.value_and_grad(loss, argnums=(0, 1))(kernel, x)


def attention(q, k, v):
    scores = jnp.einsum("bthd,bshd->bhts", q, k) / np.sqrt(q.shape[-1])
    mask = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    return jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(jnp.where(mask, scores, -1e30)), v)


def scan(w, u, xs):
    def body(h, x):
        h = jnp.tanh(h @ w + x @ u)
        return h, h.sum(-1)

    return lax.scan(body, jnp.zeros((2, 4)), xs)


def newton(x):
    def go_on(carry):
        return (jnp.max(jnp.abs(carry[1] ** 2 - x)) > 1e-5) & (carry[0] < 50)

    return lax.while_loop(go_on, lambda c: (c[0] + 1, 0.5 * (c[1] + x / c[1])), (0, x))


def sorting(x, i):
    return (jnp.sort(x, -1), jnp.argsort(x, 0), jnp.take_along_axis(x, i, 1), x[jnp.array([2, 0])], jnp.argmax(x, 1),
            jnp.argmin(x, 0), lax.top_k(x, 2), jnp.sort(x, -1, descending=True),
            lax.sort((jnp.round(x), jnp.abs(x), x), dimension=1, num_keys=2))


def scattering(x, i, u):
    return x.at[i].add(u), x.at[i].set(u), x.at[1:3, 0].mul(2.0), x.at[i].max(u), x.at[i].min(u)


def reductions(x):
    return (x.max(0), x.min(), x.prod(1), (x > 0).all(1), (x > 0).any(), jnp.cumsum(x, 1), jnp.cumprod(x, 0),
            lax.cumlogsumexp(x, 0), lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (1, 1), "VALID"),
            lax.reduce_window(x, 0.0, lax.add, (2, 2), (1, 2), "SAME"), jnp.var(x, 1), lax.cummax(x, 1, reverse=True))


def pool_grad(x):
    def loss(x):
        y = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 1, 1), ((0, 0), (0, 1), (1, 0), (0, 0)))
        return jnp.sum(y ** 3)

    return jax.grad(loss)(x)


def slices(x, i):
    cut = lax.dynamic_slice(x, (i, 0), (2, 3))
    return (cut, lax.dynamic_update_slice(x, cut * 2, (0, i)), jnp.pad(x, ((1, 0), (0, 2)), constant_values=3),
            jnp.flip(x, 1), jnp.concatenate([x, x[:1]]), x[::2, 1:], jnp.roll(x, 1, 0), x.reshape(-1)[:7].astype(jnp.float16))


def branches(i, x):
    return (lax.switch(i, [jnp.sin, jnp.cos, lambda y: jnp.exp(-y)], x), lax.cond(i > 0, jnp.tan, jnp.sqrt, x + 3),
            jnp.clip(x, -1, 1), jnp.round(x), x.astype(jnp.int32) // 2, x ** 3, lax.erf(x), jax.nn.gelu(x),
            jnp.array([0x7fc00000, 1, 2, 3, 4, 5], jnp.uint32) ^ x.astype(jnp.int32).astype(jnp.uint32))


def norm_grad(scale, shift, x):
    def loss(scale, shift, x):
        centred = x - x.mean(-1, keepdims=True)
        return jnp.mean(jnp.sin(centred * lax.rsqrt((centred ** 2).mean(-1, keepdims=True) + 1e-5) * scale + shift))

    return jax.grad(loss, argnums=(0, 1, 2))(scale, shift, x)


def spectra(x):
    half = jnp.fft.rfft2(x)
    return (jnp.abs(jnp.fft.fft(x * (1 + 2j))), half.imag, jnp.fft.irfft(half, 7),
            jnp.fft.ifft(half, axis=0).real, jax.grad(lambda x: jnp.sum(jnp.abs(jnp.fft.rfft(x)) ** 2))(x))


def factors(a, b):
    """As ops: on the CPU, JAX writes calls of LAPACK, which are no part of a module; for a TPU it writes none."""
    spd = a @ a.T + 3 * jnp.eye(a.shape[0])
    half = jnp.linalg.cholesky(spd, symmetrize_input=False)
    solve = lambda **how: lax.linalg.triangular_solve(half, b, lower=True, **how)
    return (half, jnp.linalg.cholesky(spd, symmetrize_input=False, upper=True), solve(left_side=True),
            solve(left_side=True, transpose_a=True), solve(left_side=True, unit_diagonal=True),
            jax.grad(lambda a: jnp.sum(jnp.sin(jnp.linalg.cholesky(a @ a.T + 3 * jnp.eye(a.shape[0])))))(a))


def own_functions(x, y):
    """Reductions by regions of several ops, of several operands, and over windows of padding alone or that do not fit."""
    both = lambda a, b: (lax.max(a[0], b[0]), lax.min(a[1], b[1]))
    starts = (jnp.float32(-jnp.inf), jnp.float32(jnp.inf))
    joined = lambda a, b: a + b + a * b
    windows = lambda x, start, f, size, padding, **how: lax.reduce_window(
        x, np.float32(start), f, size, (1, 2), padding, **how)
    return (lax.reduce(x, np.float32(0), joined, (1,)), *lax.reduce((x, y), starts, both, (0,)),
            *lax.reduce_window((x, y), starts, both, (2, 2), (1, 1), ((0, 1), (1, 0))),
            windows(x, 0, joined, (2, 3), ((1, 0), (0, 2))), windows(x, 2, lax.mul, (2, 2), ((1, 1), (1, 0))),
            jnp.exp(windows(x, -jnp.inf, lax.max, (1, 2), ((2, 0), (3, 1)))),
            windows(x, -jnp.inf, lax.max, (2, 2), ((0, 0), (0, 0)), window_dilation=(7, 1)),
            lax.conv_general_dilated(x[None, :, :, None], jnp.ones((5, 1, 1, 2)), (1, 1), "VALID",
                                     dimension_numbers=("NHWC", "HWIO", "NHWC")),
            lax.argmin(x, 1, np.uint8), x.at[jnp.array([1, 1, 2])].subtract(y), (x > 0).at[:, 1].max(True))


def narrow(a, b, x):
    """Products that widen, numbers of fewer bits, and what a checkpoint with a policy keeps."""
    layer = lambda x: jnp.sum(jnp.sin(jnp.sin(x @ x.T) @ x))
    kept = jax.checkpoint(layer, policy=jax.checkpoint_policies.dots_saveable)
    return (lax.dot(a, b, preferred_element_type=jnp.int32), lax.reduce_precision(x * 1e3, 5, 4),
            lax.round(jnp.array([0.49999997, 0.5, -2.5, 3.5, -0.2], jnp.float32)), jax.grad(kept)(x),
            lax.bessel_i1e(x), lax.zeta(jnp.abs(x) + 1.5, jnp.abs(x) + 0.5))


def widened(x, k, i, z):
    """Convolutions into a wider dtype and without windows, masks of more than 100 elements, functions that scatter, windows'
    minima, and complex numbers in order."""
    def least(x):
        y = lax.reduce_window(x, jnp.inf, lax.min, (1, 2, 2, 1), (1, 2, 2, 1), ((0, 0), (1, 0), (0, 1), (0, 0)))
        return jnp.sum(jnp.sin(y))

    conv = lambda x, k, dtype: lax.conv_general_dilated(
        x, k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), preferred_element_type=dtype)
    small = lambda x: (40 * x).astype(jnp.int8)
    half = lambda x: x.astype(jnp.bfloat16)
    rows = lambda r, j: r.at[j].apply(jnp.sin)
    return (conv(half(x), half(k), jnp.float32), conv(small(x), small(k), jnp.int32), jax.grad(least)(x),
            lax.conv_general_dilated(x[0, 0], k[0, 0], (), (), dimension_numbers=("NC", "IO", "NC")),
            x * (np.arange(x.size).reshape(x.shape) % 3 == 0), x[0, 0].at[i].apply(jnp.cos),
            jax.vmap(rows)(x[0, :3, :, 0], jnp.stack([i, i[::-1], i])), jnp.sort(lax.complex(jnp.round(z), -z)),
            (x[0, 0] > 0) @ (x[0, 1].T > 1), lax.dot(z[None], z[:, None], precision=lax.DotAlgorithmPreset.F32_F32_F32),
            (z > 0).at[i].apply(jnp.logical_not))


PROGRAMS = {
    mlp: (floats(4, 5), floats(5), floats(5, 3), floats(3), floats(2, 4)),
    conv_grad: (floats(3, 3, 2, 3), floats(2, 5, 5, 2)),
    attention: (floats(2, 4, 2, 3), floats(2, 4, 2, 3), floats(2, 4, 2, 3)),
    scan: (floats(4, 4), floats(3, 4), floats(5, 2, 3)),
    newton: (np.abs(floats(3)) + 1,),
    sorting: (floats(3, 4), np.array([[0, 1], [3, -1], [1, 1]], np.int32)),
    scattering: (floats(4, 3), np.array([1, 3, 1], np.int32), floats(3, 3)),
    reductions: (floats(3, 4),),
    pool_grad: (floats(2, 5, 4, 2),),
    slices: (floats(4, 5), np.int32(1)),
    branches: (np.int32(1), floats(6)),
    norm_grad: (floats(4), floats(4), floats(3, 4)),
    spectra: (floats(4, 6),),
    factors: (floats(4, 4), floats(4, 3)),
    own_functions: (floats(3, 4), floats(3, 4)),
    narrow: (draw.integers(-128, 128, (3, 40)).astype(np.int8), draw.integers(-128, 128, (40, 2)).astype(np.int8),
             floats(3, 4)),
    widened: (floats(2, 6, 6, 2), floats(3, 2, 2, 3), np.array([0, 2, 0, 9], np.int32), floats(7)),
}


def path(name):
    return os.path.join(FOLDER, name)


def generic(text):
    from jax._src.interpreters import mlir
    from jax._src.lib.mlir import ir

    with mlir.make_ir_context():
        return ir.Module.parse(text).operation.get_asm(print_generic_op_form=True)


def write():
    for function, arguments in PROGRAMS.items():
        name = function.__name__
        jitted = jax.jit(function)
        platforms = ["tpu"] if function is factors else ["cpu"]
        text = export.export(jitted, platforms=platforms)(*arguments).mlir_module().replace(FOLDER + "/", "")
        with open(path(f"{name}.mlir"), "w") as file:
            file.write(text)
        if function in (conv_grad, scan):
            with open(path(f"generic_{name}.mlir"), "w") as file:
                file.write(generic(text) + "\n")
        results = jax.tree.leaves(jitted(*arguments))
        np.savez_compressed(path(f"{name}.npz"), **{f"in{i}": x for i, x in enumerate(arguments)},
                            **{f"out{i}": np.asarray(y) for i, y in enumerate(results)})


def run(text, arguments):
    """What XLA makes of a module's text."""
    from jax._src.lib import xla_client
    from jaxlib import _jax

    backend = jax.devices("cpu")[0].client
    devices = _jax.DeviceList(tuple(jax.devices("cpu")[:1]))
    executable = backend.compile_and_load(text, devices, xla_client.CompileOptions())
    results = executable.execute_sharded([jnp.asarray(x) for x in arguments])
    return [np.asarray(y[0]) for y in results.disassemble_into_single_device_arrays()]


def check(folder):
    for function in PROGRAMS:
        stored = np.load(path(f"{function.__name__}.npz"))
        arguments = [stored[f"in{i}"] for i in range(sum(name.startswith("in") for name in stored))]
        with open(os.path.join(folder, function.__name__ + ".mlir")) as file:
            results = run(file.read(), arguments)
        for i, result in enumerate(results):
            expected = stored[f"out{i}"]
            assert result.dtype == expected.dtype and result.shape == expected.shape, (function.__name__, i)
            np.testing.assert_allclose(result, expected, rtol=2e-5, atol=1e-6, err_msg=f"{function.__name__} {i}")
        print(function.__name__, len(results), "results are equal")


if __name__ == "__main__":
    jax.config.update("jax_platforms", "cpu")
    check(sys.argv[2]) if "--check" in sys.argv else write()
