"""The same in JAX and Optax: an op on the host with its derivative, and an optimizer of one's own."""

import argparse
import hashlib
import pathlib
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import optax


def batch_at(rows, step, seed, size=64):
    """Batches of every epoch in an order of its own."""
    n = len(jax.tree.leaves(rows)[0])
    epoch, place = divmod(step, n // size)
    order = jax.random.permutation(jax.random.fold_in(jax.random.key(seed), epoch), n)
    return jax.tree.map(lambda leaf: leaf[order[place * size : (place + 1) * size]], rows)


@jax.custom_vjp
def own_softsign(x):
    kernel = lambda x: np.asarray(x) / (1 + np.abs(np.asarray(x)))
    return jax.pure_callback(kernel, jax.ShapeDtypeStruct(x.shape, x.dtype), x)


def own_softsign_forward(x):
    return own_softsign(x), x


def own_softsign_backward(x, dy):
    return (dy / (1 + jnp.abs(x)) ** 2,)


own_softsign.defvjp(own_softsign_forward, own_softsign_backward)


def normalized_momentum(rate):
    def init(params):
        return jax.tree.map(jnp.zeros_like, params)

    def update(gradients, velocity, params=None):
        follow = lambda v, g: 0.9 * v + g / (jnp.sqrt(jnp.mean(g**2)) + 1e-6)
        velocity = jax.tree.map(follow, velocity, gradients)
        return jax.tree.map(lambda v: -rate * v, velocity), velocity

    return optax.GradientTransformation(init, update)


def rings(seed, rows):
    x = 1.5 * jax.random.normal(jax.random.key(seed), (rows, 2))
    return {"x": x, "y": (jnp.sum(x**2, 1) > 2.5).astype(jnp.int32)}


def dense(p, x):
    return x @ p["kernel"] + p["bias"]


def dense_init(key, inputs, units):
    return {"kernel": jax.nn.initializers.glorot_uniform()(key, (inputs, units)), "bias": jnp.zeros(units)}


def network(params, x):
    return dense(params["head"], own_softsign(dense(params["hidden"], x)))


def loss(params, batch):
    return optax.softmax_cross_entropy_with_integer_labels(network(params, batch["x"]), batch["y"]).mean()


@jax.jit
def step(state, batch):
    params, opt_state = state
    gradients = jax.grad(loss)(params, batch)
    updates, opt_state = optimizer.update(gradients, opt_state, params)
    return optax.apply_updates(params, updates), opt_state


parser = argparse.ArgumentParser()
parser.add_argument("--run", type=pathlib.Path)
parser.add_argument("--steps", type=int, default=150)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--resume", action="store_true")
args = parser.parse_args()
optimizer = normalized_momentum(1e-2)
rows, test = rings(1, 1024), rings(4, 512)
keys = jax.random.split(jax.random.key(100 + args.seed))
params = {"hidden": dense_init(keys[0], 2, 32), "head": dense_init(keys[1], 32, 2)}
state = params, optimizer.init(params)
start, saved = 0, args.run / "state.pickle" if args.run else None
if args.resume and saved.exists():
    start, state = pickle.loads(saved.read_bytes())
for i in range(start, args.steps):
    state = step(state, batch_at(rows, i, args.seed))
if saved:
    saved.parent.mkdir(parents=True, exist_ok=True)
    saved.write_bytes(pickle.dumps((args.steps, jax.device_get(state))))
print(f"accuracy {jnp.mean(network(state[0], test['x']).argmax(-1) == test['y']):.3f}")
content = b"".join(np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(state))
print("fingerprint", hashlib.sha256(content).hexdigest())
