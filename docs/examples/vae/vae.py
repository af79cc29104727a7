"""The same in JAX and Optax: a variational autoencoder of stripes."""

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


def stripes(seed, rows):
    u = jax.random.uniform(jax.random.key(seed), (2, rows, 1, 1), maxval=3.1416)
    i, j = jnp.arange(8.0).reshape(8, 1), jnp.arange(8.0).reshape(1, 8)
    return (0.5 + 0.5 * jnp.sin(jnp.cos(u[0]) * i + jnp.sin(u[0]) * j + 2 * u[1])).reshape(rows, 64)


def dense(p, x):
    return x @ p["kernel"] + p["bias"]


def dense_init(key, inputs, units):
    return {"kernel": jax.nn.initializers.glorot_uniform()(key, (inputs, units)), "bias": jnp.zeros(units)}


def init(key):
    keys = jax.random.split(key, 5)
    sizes = {"encoder": (64, 64), "mean": (64, 4), "spread": (64, 4), "decoder": (4, 64), "image": (64, 64)}
    return {name: dense_init(k, *size) for k, (name, size) in zip(keys, sizes.items())}


def network(params, x, key):
    h = jax.nn.relu(dense(params["encoder"], x))
    mean, log_variance = dense(params["mean"], h), dense(params["spread"], h)
    z = mean + jnp.exp(0.5 * log_variance) * jax.random.normal(key, mean.shape)
    return mean, log_variance, dense(params["image"], jax.nn.relu(dense(params["decoder"], z)))


def loss(params, x, key):
    mean, log_variance, logits = network(params, x, key)
    divergence = 0.5 * jnp.sum(jnp.exp(log_variance) + mean**2 - 1 - log_variance, 1)
    return jnp.mean(optax.sigmoid_binary_cross_entropy(logits, x).sum(1) + divergence)


@jax.jit
def step(state, batch, key):
    params, opt_state = state
    updates, opt_state = optimizer.update(jax.grad(loss)(params, batch, key), opt_state)
    return optax.apply_updates(params, updates), opt_state


parser = argparse.ArgumentParser()
parser.add_argument("--run", type=pathlib.Path)
parser.add_argument("--steps", type=int, default=300)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--resume", action="store_true")
args = parser.parse_args()
optimizer = optax.adam(3e-3)
rows = stripes(1, 1024)
params = init(jax.random.key(100 + args.seed))
state = params, optimizer.init(params)
start, saved = 0, args.run / "state.pickle" if args.run else None
if args.resume and saved.exists():
    start, state = pickle.loads(saved.read_bytes())
for i in range(start, args.steps):
    state = step(state, batch_at(rows, i, args.seed), jax.random.fold_in(jax.random.key(200 + args.seed), i))
if saved:
    saved.parent.mkdir(parents=True, exist_ok=True)
    saved.write_bytes(pickle.dumps((args.steps, jax.device_get(state))))
print(f"loss {loss(state[0], stripes(4, 512), jax.random.key(6)):.2f}")
content = b"".join(np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(state))
print("fingerprint", hashlib.sha256(content).hexdigest())
