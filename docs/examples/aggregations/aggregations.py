"""The same in JAX and Optax: shards, and psum or pmean for what each of them makes."""

import argparse
import hashlib
import os
import pathlib
import pickle

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import PartitionSpec as P


def batch_at(rows, step, seed, size=32):
    """Batches of every epoch in an order of its own."""
    n = len(jax.tree.leaves(rows)[0])
    epoch, place = divmod(step, n // size)
    order = jax.random.permutation(jax.random.fold_in(jax.random.key(seed), epoch), n)
    return jax.tree.map(lambda leaf: leaf[order[place * size : (place + 1) * size]], rows)


def points(rows):
    x = 5 + jax.random.normal(jax.random.key(1), (rows, 3))
    return {"x": x, "y": (x - 5) @ jnp.array([[1.0], [-2.0], [0.5]])}


def loss(params, mean, batch):
    return jnp.mean(((batch["x"] - mean) @ params["kernel"] + params["bias"] - batch["y"]) ** 2)


def shard_step(state, batch):
    params, opt_state, mean, seen = state
    gradients = jax.grad(loss)(jax.lax.pcast(params, "batch", to="varying"), mean, batch)
    gradients = jax.lax.pmean(gradients, "batch")
    updates, opt_state = optimizer.update(gradients, opt_state)
    mean = jax.lax.pmean(0.9 * mean + 0.1 * jnp.mean(batch["x"], 0), "batch")
    seen = seen + jax.lax.psum(len(batch["x"]), "batch")
    return optax.apply_updates(params, updates), opt_state, mean, seen


parser = argparse.ArgumentParser()
parser.add_argument("--run", type=pathlib.Path)
parser.add_argument("--steps", type=int, default=100)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--resume", action="store_true")
args = parser.parse_args()
mesh = jax.make_mesh((4,), ("batch",), axis_types=(jax.sharding.AxisType.Auto,))
step = jax.jit(jax.shard_map(shard_step, mesh=mesh, in_specs=(P(), P("batch")), out_specs=P()))
optimizer = optax.sgd(0.1)
rows = points(512)
params = {"kernel": jax.nn.initializers.glorot_uniform()(jax.random.key(100 + args.seed), (3, 1)), "bias": jnp.zeros(1)}
state = params, optimizer.init(params), jnp.zeros(3), jnp.zeros((), jnp.int32)
start, saved = 0, args.run / "state.pickle" if args.run else None
if args.resume and saved.exists():
    start, state = pickle.loads(saved.read_bytes())
for i in range(start, args.steps):
    state = step(state, batch_at(rows, i, args.seed))
if saved:
    saved.parent.mkdir(parents=True, exist_ok=True)
    saved.write_bytes(pickle.dumps((args.steps, jax.device_get(state))))
print(f"loss {loss(state[0], state[2], rows):.4f} mean {jnp.mean(state[2]):.2f} rows {state[3]}")
content = b"".join(np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(state))
print("fingerprint", hashlib.sha256(content).hexdigest())
