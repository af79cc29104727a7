#!/usr/bin/env python3
"""Writes trajectories.txt: what Optax' optimizers make of parameters in ten steps, and what its schedules give.

    python3 tests/golden/optax/optax_trajectories.py

needs JAX 0.10.2, Optax 0.2.8 and Keras 3.15.1. Everything is float64. Each transformation is given the same parameters,
gradients and losses, which the file begins with, or those of `valley`; tests/golden/optax/*cases.cpp have ours under the
same names.
"""

import os
import pathlib
import sys
import types
import warnings

os.environ["KERAS_BACKEND"] = "jax"

import jax
import jax.numpy as jnp
import keras
import numpy as np
import optax

jax.config.update("jax_enable_x64", True)
keras.config.set_floatx("float64")
contrib = optax.contrib
# With 64-bit defaults it would draw other signs than without.
jax.random.rademacher = lambda key, shape, dtype: (
    2 * jax.random.bernoulli(key, jnp.float32(0.5), shape).astype(dtype) - 1)



def svd(matrix, full_matrices):
    """With our signs: in each column of u the first element of at least 0.7 of the largest magnitude is positive."""
    u, s, vh = jnp.linalg.svd(matrix, full_matrices=full_matrices)
    first = jnp.argmax(jnp.abs(u) >= 0.7 * jnp.max(jnp.abs(u), axis=0), axis=0)
    signs = jnp.sign(u[first, jnp.arange(u.shape[1])])
    return u * signs, s, vh * signs[:, None]


# Both compute in float32 whatever is given.
contrib._galore.jnp = types.SimpleNamespace(
    **{**vars(jnp), "float32": jnp.float64, "linalg": types.SimpleNamespace(svd=svd)})
contrib._madgrad.jnp = types.SimpleNamespace(**{**vars(jnp), "sqrt": lambda n: jnp.sqrt(n.astype("float64"))})

SHAPES = {"bias": (2,), "conv": (2, 1, 1, 2), "kernel": (2, 3), "scale": ()}
STEPS = 10
LOSSES = [2.0, 1.5, 1.6, 1.7, 1.55, 1.4, 1.5, 1.6, 1.7, 1.2]


def exact_adafactor(factored, momentum, decayed):
    """adafactor, whose share of old squares Optax computes in float32, in float64."""
    squares = optax.scale_by_factored_rms(
        factored=factored,
        min_dim_size_to_factor=2,
        decay_rate_fn=lambda i, exponent: 1.0 - jnp.asarray(i + 1, "float64") ** -exponent,
    )
    parts = [squares, optax.clip_by_block_rms(1.0), optax.scale(0.1), optax.scale_by_param_block_rms()]
    if momentum is not None:
        parts.append(optax.ema(momentum, debias=False))
    if decayed is not None:
        parts.append(optax.add_decayed_weights(decayed))
    return optax.chain(*parts, optax.scale(-1))


def on_fast(lookahead):
    """lookahead, whose parameters are pairs, as a transformation of the fast ones; the state holds the slow ones."""

    def init(params):
        return lookahead.init(optax.LookaheadParams(params, params)), params

    def update(updates, state, params):
        inner, slow = state
        both, inner = lookahead.update(updates, inner, optax.LookaheadParams(params, slow))
        return both.fast, (inner, optax.apply_updates(slow, both.slow))

    return optax.GradientTransformation(init, update)


def prompt_rprop(first, shrink=0.5, grow=1.2, least=1e-6, largest=50.0):
    """Rprop as Riedmiller and Braun have it; what Optax' gives back is the update of the step before."""

    def init(params):
        return jax.tree.map(lambda p: jnp.full_like(p, first), params), jax.tree.map(jnp.zeros_like, params)

    def update(updates, state, params=None):
        agrees = jax.tree.map(jnp.multiply, updates, state[1])
        resized = lambda s, a: jnp.where(a == 0, s, jnp.clip(s * jnp.where(a > 0, grow, shrink), least, largest))
        sizes = jax.tree.map(resized, state[0], agrees)
        moves = jax.tree.map(lambda g, a, s: jnp.where(a < 0, 0, s * jnp.sign(g)), updates, agrees, sizes)
        return jax.tree.map(jnp.negative, moves), (sizes, moves)

    return optax.GradientTransformation(init, update)


def exactly(schedule):
    """Of an int32 step Optax' schedules are float32."""
    return lambda step: schedule(jnp.asarray(step, "int64"))


def schedule_free_adamw(rate, weight_decay):
    squares = optax.scale_by_rms(decay=0.999, eps=1e-8, eps_in_sqrt=False, bias_correction=True)
    base = optax.chain(squares, optax.add_decayed_weights(weight_decay), optax.scale_by_learning_rate(rate))
    return contrib.schedule_free(base, rate)


def constrained(name, constraint):
    """sgd, and what Keras makes of the leaf of that name."""

    def update(updates, state, params):
        moved = constraint(params[name] + updates[name])
        return {**updates, name: moved - params[name]}, state

    return optax.chain(optax.sgd(0.1), optax.GradientTransformation(lambda params: (), update))


def of_keras(make):
    """An optimizer of Keras as one of Optax."""

    def init(params):
        optimizer = make()
        optimizer.build([keras.Variable(params[name], dtype="float64") for name in sorted(params)])
        return optimizer, [v.value for v in optimizer.variables]

    def update(updates, state, params):
        optimizer, variables = state
        names = sorted(params)
        moved, variables = optimizer.stateless_apply(
            variables, [jnp.asarray(updates[n]) for n in names], [params[n] for n in names])
        return {n: new - params[n] for n, new in zip(names, moved)}, (optimizer, variables)

    return optax.GradientTransformation(init, update)


def valley(params):
    """A narrow curved valley over all parameters."""
    z = jnp.concatenate([jnp.ravel(params[name]) for name in sorted(params)])
    places = jnp.arange(z.size, dtype="float64")
    return jnp.sum((places + 1) * (z - jnp.sin(places)) ** 2) / 10 + jnp.sum((z[1:] - z[:-1] ** 2) ** 2)


def below(name):
    return lambda tree: {key: key == name for key in tree}


def matrix_of_conv(tree):
    return {k: contrib.GaLoreDimensionNumbers((0, 2), (3, 1)) if k == "conv" else None for k in tree}


def descending(transformation):
    return optax.chain(transformation, optax.scale(-0.1))


def multi_steps(inner, k, **options):
    return optax.MultiSteps(inner, k, accumulator_dtype=jnp.float64, **options).gradient_transformation()


RAMP = exactly(optax.linear_schedule(0.1, 0.01, 8))
RAMP_OF_TEN = exactly(optax.linear_schedule(1.0, 0.1, 8))
WARM_UP = exactly(optax.linear_schedule(0.0, 0.1, 4))

CASES = {
    "sgd": "optax.sgd(0.1, momentum=0.9, nesterov=True)",
    "adam": "optax.adam(0.1, b1=0.8, b2=0.95, eps=1e-6)",
    "adamw": "optax.adamw(RAMP, weight_decay=0.01)",
    "lion": "optax.lion(0.01, weight_decay=0.1)",
    "rmsprop": "optax.rmsprop(0.01, decay=0.8, eps=1e-6)",
    "rmsprop_centered": "optax.rmsprop(0.01, decay=0.8, initial_scale=0.5, centered=True, momentum=0.7, nesterov=True)",
    "rmsprop_corrected": "optax.rmsprop(0.01, decay=0.8, eps_in_sqrt=False, bias_correction=True)",
    "adagrad": "optax.adagrad(0.1)",
    "adadelta": "optax.adadelta(0.5, rho=0.8, eps=1e-4)",
    "nadam": "optax.nadam(0.1)",
    "nadamw": "optax.nadamw(0.1, weight_decay=0.01)",
    "adamax": "optax.adamax(0.1)",
    "adamaxw": "optax.adamaxw(0.1, weight_decay=0.01)",
    "amsgrad": "optax.amsgrad(0.1, b2=0.7)",
    "adabelief": "optax.adabelief(0.1)",
    "radam": "optax.radam(0.1, b2=0.9)",
    "yogi": "optax.yogi(0.1)",
    "ademamix": "contrib.ademamix(0.1, b3=0.99, alpha=exactly(optax.linear_schedule(0.0, 5.0, 6)), weight_decay=0.01)",
    "adan": "optax.adan(0.1, weight_decay=0.01)",
    "acprop": "contrib.acprop(0.1, b2=0.99, weight_decay=0.01)",
    "adopt": "contrib.adopt(0.1, b2=0.99)",
    "adopt_nesterov": "contrib.adopt(0.1, b2=0.9, nesterov=True, use_clipping=False)",
    "simplified_ademamix": "contrib.simplified_ademamix(0.01, b1=0.9, alpha=exactly(optax.linear_schedule(0.0, 5.0, 6)), eps_root=1e-4, weight_decay=0.01)",
    "lamb": "optax.lamb(0.1, weight_decay=0.01)",
    "lars": "optax.lars(0.5, weight_decay=0.01, trust_coefficient=0.1, momentum=0.8)",
    "lars_masked": "optax.lars(0.5, 0.01, below('kernel'), 0.1, 1e-3, below('conv'), 0.8, True)",
    "fromage": "optax.fromage(0.1)",
    "novograd": "optax.novograd(0.1, weight_decay=0.01)",
    "adafactor": "exact_adafactor(True, None, None)",
    "adafactor_momentum": "exact_adafactor(False, 0.9, 0.01)",
    "sm3": "optax.chain(optax.masked(optax.scale_by_sm3(0.9), lambda t: {k: k != 'scale' for k in t}), optax.scale(-0.1))",
    "sm3_averaged": "optax.chain(optax.masked(optax.scale_by_sm3(0.5, 0.9), below('conv')), optax.scale(-0.1))",
    "sign_sgd": "optax.sign_sgd(0.01)",
    "signum": "optax.signum(0.01, 0.8)",
    "rprop": "prompt_rprop(0.1)",
    "optimistic": "optax.optimistic_gradient_descent(0.1, alpha=0.7, beta=0.4)",
    "optimistic_adam": "optax.optimistic_adam_v2(RAMP, alpha=0.7, beta=0.4, b2=0.95)",
    "ftrl": "of_keras(lambda: keras.optimizers.Ftrl(0.1, l1_regularization_strength=0.05, l2_regularization_strength=0.02))",
    "ftrl_power": "of_keras(lambda: keras.optimizers.Ftrl(0.2, -0.3, 0.3, 0.01, 0.0, 0.03, 0.4))",
    "noisy_sgd": "optax.noisy_sgd(0.1, eta=0.02, gamma=0.6, key=7)",
    "polyak_sgd": "optax.polyak_sgd(max_learning_rate=0.2, scaling=0.5, f_min=0.1)",
    "muon": "contrib.muon(0.1, weight_decay=0.01)",
    "muon_plain": "contrib.muon(0.1, ns_steps=3, beta=0.8, nesterov=False)",
    "galore": "contrib.galore(0.1, rank=1, update_proj_gap=3, scale=0.5, weight_decay=0.01)",
    "galore_axes": "contrib.galore(RAMP, 5, 4, base_optimizer=optax.scale_by_lion(), weight_dimension_numbers=matrix_of_conv)",
    "madgrad": "contrib.madgrad(0.1, weight_decay=0.01)",
    "madgrad_ramp": "contrib.madgrad(RAMP, 0.5, eps=1e-3)",
    "prodigy": "contrib.prodigy(1.0, estim_lr0=0.01, weight_decay=0.01)",
    "prodigy_warmup": "contrib.prodigy(RAMP, estim_lr0=0.01, safeguard_warmup=True)",
    "dog": "contrib.dog(1.0, ('heuristic', 0.01), weight_decay=0.1)",
    "dog_distance": "contrib.dog(RAMP_OF_TEN, ('distance', 0.02))",
    "dog_rate": "contrib.dog(1.0, ('learning_rate', 0.05), eps=1e-4)",
    "distance_over_gradients": "optax.chain(optax.scale_by_distance_over_gradients(0.01, param_dtype=jnp.float64), optax.scale(-1))",
    "dowg": "contrib.dowg(1.0, weight_decay=0.1)",
    "dowg_squared": "contrib.dowg(0.5, 0.04, 1e-3)",
    "cocob": "contrib.cocob(0.5, 3.0, weight_decay=0.1)",
    "dadapt_adamw": "contrib.dadapt_adamw(1.0, estim_lr0=0.01, weight_decay=0.01)",
    "dadapt_adamw_ramp": "contrib.dadapt_adamw(RAMP_OF_TEN, (0.8, 0.9), estim_lr0=0.1)",
    "momo": "contrib.momo(1.0, lower_bound=0.1, weight_decay=0.01)",
    "momo_adapts": "contrib.momo(RAMP_OF_TEN, 0.8, lower_bound=-3.0, adapt_lower_bound=True)",
    "momo_adam": "contrib.momo_adam(0.3, b2=0.99, weight_decay=0.01)",
    "momo_adam_adapts": "contrib.momo_adam(0.1, 0.8, 0.9, 1e-6, -3.0, 0.0, True)",
    "mechanize": "contrib.mechanize(optax.adam(0.1), s_init=0.01)",
    "mechanize_three": "contrib.mechanize(optax.sgd(1.0, 0.9), 0.0, s_init=0.1, num_betas=3)",
    "backtracking": "optax.chain(optax.sgd(1.0), optax.scale_by_backtracking_linesearch(30))",
    "backtracking_short": "optax.chain(optax.sgd(0.5), optax.scale_by_backtracking_linesearch(4, 0.1, 0.5, 3.0, 2.0, 0.01, 0.01))",
    "zoom": "optax.chain(optax.sgd(1.0), optax.scale_by_zoom_linesearch(15))",
    "zoom_strict": "optax.chain(optax.scale_by_adam(), optax.scale(-1), optax.scale_by_zoom_linesearch(6, 0.3, 1e-3, 1.5, 0.1, 0.2, None, initial_guess_strategy='one'))",
    "lbfgs_searching": "optax.lbfgs(memory_size=4)",
    "sophia": "contrib.sophia(0.1, weight_decay=0.01, update_interval=3, hessian_diagonal_fn=contrib.hutchinson_estimator_diag_hessian(jax.random.key(3)))",
    "sophia_free": "contrib.sophia(0.01, 0.9, 0.5, 0.1, gamma=1.0, clip_threshold=None, update_interval=1, hessian_diagonal_fn=contrib.hutchinson_estimator_diag_hessian(jax.random.key(3)))",
    "lbfgs": "optax.lbfgs(0.1, memory_size=3, linesearch=None)",
    "sam": "contrib.sam(optax.adam(0.1), optax.chain(contrib.normalize(), optax.sgd(0.05)), sync_period=3)",
    "lookahead": "on_fast(optax.lookahead(optax.adam(0.1), 3, 0.4))",
    "schedule_free_sgd": "contrib.schedule_free_sgd(0.1)",
    "schedule_free_adamw": "schedule_free_adamw(WARM_UP, 0.01)",
    "multi_steps": "multi_steps(optax.adam(0.1), 3)",
    "multi_steps_schedule": "multi_steps(optax.adam(0.1), lambda n: jnp.where(n < 2, 1, 3), use_grad_mean=False)",
    "multi_steps_skip": "multi_steps(optax.sgd(0.1), 2, should_skip_update_fn=optax.skip_not_finite)",
    "multi_steps_large": "multi_steps(optax.sgd(0.1), 2, should_skip_update_fn=lambda u, n, p: optax.skip_large_updates(u, n, p, 12.0))",
    "apply_if_finite": "optax.apply_if_finite(optax.adam(0.1), 5)",
    "inject_hyperparams": "optax.inject_hyperparams(optax.sgd)(learning_rate=RAMP)",
    "reduce_on_plateau": "optax.chain(optax.sgd(0.1), contrib.reduce_on_plateau(0.5, patience=2, cooldown=1))",
    "reduce_on_plateau_mean": "optax.chain(optax.sgd(0.1), contrib.reduce_on_plateau(0.5, 1, 0.0, 0.01, 0, 2, 0.3))",
    "partition": "optax.partition({'a': optax.adam(0.1), 'b': optax.sgd(0.2)}, lambda t: {k: 'a' if k < 'd' else 'b' for k in t})",
    "masked": "optax.chain(optax.masked(optax.clip(0.2), below('conv')), optax.sgd(0.1))",
    "add_decayed_weights": "descending(optax.add_decayed_weights(RAMP, mask=below('kernel')))",
    "ema": "descending(optax.ema(0.8))",
    "trace": "descending(optax.trace(0.8))",
    "clip": "descending(optax.clip(0.5))",
    "clip_by_global_norm": "descending(optax.clip_by_global_norm(1.5))",
    "clip_by_block_rms": "descending(optax.clip_by_block_rms(0.7))",
    "adaptive_grad_clip": "descending(optax.adaptive_grad_clip(0.3))",
    "zero_nans": "descending(optax.zero_nans())",
    "keep_params_nonnegative": "optax.chain(optax.sgd(1.0), optax.keep_params_nonnegative())",
    "centralize": "descending(optax.centralize())",
    "normalize": "descending(contrib.normalize())",
    "normalize_by_update_norm": "descending(optax.normalize_by_update_norm(1.5, 0.1))",
    "scale_by_trust_ratio": "descending(optax.scale_by_trust_ratio(0.2, 0.5, 0.1))",
    "scale_by_param_block_norm": "descending(optax.scale_by_param_block_norm(0.5))",
    "scale_by_param_block_rms": "descending(optax.scale_by_param_block_rms(0.5))",
    "max_norm": "constrained('kernel', keras.constraints.MaxNorm(0.8))",
    "max_norm_of_filters": "constrained('conv', keras.constraints.MaxNorm(0.5, [0, 1, 2]))",
    "min_max_norm": "constrained('kernel', keras.constraints.MinMaxNorm(0.9, 1.1, 0.7))",
    "unit_norm": "constrained('kernel', keras.constraints.UnitNorm())",
}

# With a NaN in the third and the fourth gradient.
NANS = {"multi_steps_skip", "apply_if_finite", "zero_nans"}

# Given the loss too.
WITH_LOSS = {"polyak_sgd", "reduce_on_plateau", "reduce_on_plateau_mean"}
WITH_LOSS |= {"momo", "momo_adapts", "momo_adam", "momo_adam_adapts"}

# Given gradients and losses of `valley`, and valley itself.
OF_VALLEY = {"backtracking", "backtracking_short", "zoom", "zoom_strict", "lbfgs_searching", "sophia", "sophia_free"}

AT = [*range(13), 50]
SCHEDULES = {
    "linear": "optax.linear_schedule(0.3, 0.1, 8, 2)",
    "polynomial": "optax.polynomial_schedule(0.3, 0.1, 2.5, 8, 1)",
    "exponential_decay": "optax.exponential_decay(0.3, 4, 0.5, 2)",
    "exponential_staircase": "optax.exponential_decay(0.3, 4, 0.5, 1, True, 0.1)",
    "cosine": "optax.cosine_decay_schedule(0.3, 9, 0.1)",
    "warmup_cosine": "optax.warmup_cosine_decay_schedule(0.0, 0.3, 4, 10, 0.05)",
    "cosine_restarts": "optax.sgdr_schedule([dict(init_value=0.0, peak_value=0.3, warmup_steps=1, decay_steps=4), dict(init_value=0.1, peak_value=0.2, warmup_steps=2, decay_steps=6, end_value=0.02)])",
    "linear_onecycle": "optax.linear_onecycle_schedule(12, 0.3)",
    "cosine_onecycle": "optax.cosine_onecycle_schedule(12, 0.3, 0.4, 10.0, 100.0)",
    "cosine_onecycle_late": "optax.cosine_onecycle_schedule(10, 0.3, 0.9, 10.0, 100.0)",
    "join": "optax.join_schedules([optax.constant_schedule(0.2), optax.linear_schedule(0.3, 0.0, 4), optax.exponential_decay(0.1, 2, 0.5)], [3, 7])",
    "warmup_stable_decay": "optax.join_schedules([optax.linear_schedule(0.01, 0.3, 3), optax.constant_schedule(0.3), optax.linear_schedule(0.3, 0.02, 4)], [3, 7])",
}


def numbers(values):
    return " ".join(repr(float(x)) for x in values)


def flat(tree):
    return np.concatenate([np.ravel(tree[name]) for name in sorted(tree)])


def drawn(generator):
    return {name: generator.standard_normal(shape) for name, shape in SHAPES.items()}


def trajectory(name, start, gradients):
    transformation = optax.with_extra_args_support(eval(CASES[name]))
    params = {key: jnp.asarray(value) for key, value in start.items()}
    state = transformation.init(params)
    for step, gradient in enumerate(gradients):
        given = dict(gradient)
        if name in NANS and step in (2, 3):
            given["kernel"] = np.where(np.arange(6).reshape(2, 3) == 1, np.nan, given["kernel"])
        known = {"value": jnp.asarray(LOSSES[step])} if name in WITH_LOSS else {}
        if name in OF_VALLEY:
            value, given = jax.value_and_grad(valley)(params)
            known = {"obj_fn": valley} if "sophia" in name else {"value": value, "grad": given, "value_fn": valley}
        updates, state = transformation.update(given, state, params, **known)
        params = optax.apply_updates(params, updates)
        yield f" {step + 1} | {numbers(flat(params))}"


def main():
    found = (jax.__version__, optax.__version__, keras.__version__)
    if found != ("0.10.2", "0.2.8", "3.15.1"):
        sys.exit(f"these are JAX, Optax and Keras {found}; the values are those of 0.10.2, 0.2.8 and 3.15.1")
    warnings.simplefilter("ignore")
    generator = np.random.default_rng(20261126)
    start, gradients = drawn(generator), [drawn(generator) for _ in range(STEPS)]
    lines = ["# Optax 0.2.8's trajectories in float64, by optax_trajectories.py: parameters after each step, leaf by leaf"]
    lines += ["given | " + ", ".join(f"{name}{list(shape)}" for name, shape in sorted(SHAPES.items()))]
    lines += [f" parameters | {numbers(flat(start))}", f" losses | {numbers(LOSSES)}"]
    lines += [f" {step + 1} | {numbers(flat(gradient))}" for step, gradient in enumerate(gradients)]
    for name, expression in CASES.items():
        lines += [f"{name} | {expression}", *trajectory(name, start, gradients)]
    for name, expression in SCHEDULES.items():
        schedule = exactly(eval(expression))
        lines += [f"schedules/{name} | {expression}"]
        lines += [f" {step} | {float(schedule(step))!r}" for step in AT]
    path = pathlib.Path(__file__).parent / "trajectories.txt"
    path.write_text("\n".join(lines) + "\n")
    print(f"{len(CASES)} transformations and {len(SCHEDULES)} schedules in {path.name}")


if __name__ == "__main__":
    main()
