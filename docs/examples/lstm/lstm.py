"""The same in JAX and Optax: an LSTM on sequences of many lengths."""

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


def walks(seed, rows):
    keys = jax.random.split(jax.random.key(seed))
    x = jax.random.normal(keys[0], (rows, 24, 1))
    length = jax.random.randint(keys[1], (rows,), 4, 25)
    counts = jnp.arange(24) < length[:, None]
    return {"x": x, "length": length, "y": (jnp.sum(jnp.where(counts, x[..., 0], 0), 1) > 0).astype(jnp.int32)}


def init(key):
    keys, glorot = jax.random.split(key, 3), jax.nn.initializers.glorot_uniform()
    shapes = {"kernel": (1, 96), "recurrent_kernel": (24, 96), "head": (24, 2)}
    weights = {name: glorot(k, shape) for k, (name, shape) in zip(keys, shapes.items())}
    return weights | {"bias": jnp.zeros(96), "head_bias": jnp.zeros(2)}


def network(params, batch):
    def cell(carry, inputs):
        (h, c), (x, t) = carry, inputs
        gates = x @ params["kernel"] + h @ params["recurrent_kernel"] + params["bias"]
        i, f, g, o = jnp.split(gates, 4, -1)
        new_c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        new_h = jax.nn.sigmoid(o) * jnp.tanh(new_c)
        counts = (t < batch["length"])[:, None]
        return (jnp.where(counts, new_h, h), jnp.where(counts, new_c, c)), None

    zeros = jnp.zeros((len(batch["x"]), 24))
    (h, _), _ = jax.lax.scan(cell, (zeros, zeros), (jnp.moveaxis(batch["x"], 1, 0), jnp.arange(24)))
    return h @ params["head"] + params["head_bias"]


def loss(params, batch):
    return optax.softmax_cross_entropy_with_integer_labels(network(params, batch), batch["y"]).mean()


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
optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(1e-2))
rows, test = walks(1, 1024), walks(4, 512)
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
print(f"accuracy {jnp.mean(network(state[0], test).argmax(-1) == test['y']):.3f}")
content = b"".join(np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(state))
print("fingerprint", hashlib.sha256(content).hexdigest())
