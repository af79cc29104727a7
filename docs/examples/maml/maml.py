"""The same in JAX and Optax: meta-learning of sine waves."""

import argparse
import hashlib
import pathlib
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import optax


def batch_at(rows, step, seed, size=32):
    """Batches of every epoch in an order of its own."""
    n = len(jax.tree.leaves(rows)[0])
    epoch, place = divmod(step, n // size)
    order = jax.random.permutation(jax.random.fold_in(jax.random.key(seed), epoch), n)
    return jax.tree.map(lambda leaf: leaf[order[place * size : (place + 1) * size]], rows)


def waves(seed, tasks):
    keys = jax.random.split(jax.random.key(seed), 3)
    amplitude = jax.random.uniform(keys[0], (tasks, 1, 1), minval=0.5, maxval=3)
    phase = jax.random.uniform(keys[1], (tasks, 1, 1), maxval=3.14)
    x = jax.random.uniform(keys[2], (tasks, 20, 1), minval=-3, maxval=3)
    y = amplitude * jnp.sin(x + phase)
    return {"x": x[:, :10], "y": y[:, :10], "query_x": x[:, 10:], "query_y": y[:, 10:]}


def dense(p, x):
    return x @ p["kernel"] + p["bias"]


def dense_init(key, inputs, units):
    return {"kernel": jax.nn.initializers.glorot_uniform()(key, (inputs, units)), "bias": jnp.zeros(units)}


def init(key):
    keys = jax.random.split(key, 3)
    sizes = {"first": (1, 40), "second": (40, 40), "head": (40, 1)}
    return {name: dense_init(k, *size) for k, (name, size) in zip(keys, sizes.items())}


def network(params, x):
    h = jax.nn.relu(dense(params["first"], x))
    return dense(params["head"], jax.nn.relu(dense(params["second"], h)))


def error(params, x, y):
    return jnp.mean((network(params, x) - y) ** 2)


def adapted_error(params, wave):
    gradients = jax.grad(error)(params, wave["x"], wave["y"])
    params = jax.tree.map(lambda p, g: p - 0.02 * g, params, gradients)
    return error(params, wave["query_x"], wave["query_y"])


def loss(params, batch):
    return jnp.mean(jax.vmap(adapted_error, in_axes=(None, 0))(params, batch))


@jax.jit
def step(state, batch):
    params, opt_state = state
    gradients = jax.grad(loss)(params, batch)
    updates, opt_state = optimizer.update(gradients, opt_state, params)
    return optax.apply_updates(params, updates), opt_state


parser = argparse.ArgumentParser()
parser.add_argument("--run", type=pathlib.Path)
parser.add_argument("--steps", type=int, default=300)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--resume", action="store_true")
args = parser.parse_args()
optimizer = optax.adam(3e-3)
rows = waves(1, 4096)
params = init(jax.random.key(100 + args.seed))
state = params, optimizer.init(params)
start, saved = 0, args.run / "state.pickle" if args.run else None
if args.resume and saved.exists():
    start, state = pickle.loads(saved.read_bytes())
for i in range(start, args.steps):
    state = step(state, batch_at(rows, i, args.seed))
if saved:
    saved.parent.mkdir(parents=True, exist_ok=True)
    saved.write_bytes(pickle.dumps((args.steps, jax.device_get(state))))
print(f"loss {loss(state[0], waves(4, 512)):.3f}")
content = b"".join(np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(state))
print("fingerprint", hashlib.sha256(content).hexdigest())
