"""The same in JAX and Optax: two layers cut over a mesh of two by two."""

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
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P


def batch_at(rows, step, seed, size=64):
    """Batches of every epoch in an order of its own."""
    n = len(jax.tree.leaves(rows)[0])
    epoch, place = divmod(step, n // size)
    order = jax.random.permutation(jax.random.fold_in(jax.random.key(seed), epoch), n)
    return jax.tree.map(lambda leaf: leaf[order[place * size : (place + 1) * size]], rows)


def rings(seed, rows):
    x = 1.5 * jax.random.normal(jax.random.key(seed), (rows, 2))
    return {"x": x, "y": (jnp.sum(x**2, 1) > 2.5).astype(jnp.int32)}


def dense(p, x):
    return x @ p["kernel"] + p["bias"]


def dense_init(key, inputs, units):
    return {"kernel": jax.nn.initializers.glorot_uniform()(key, (inputs, units)), "bias": jnp.zeros(units)}


def network(params, x):
    return dense(params["down"], jax.nn.relu(dense(params["up"], x)))


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
parser.add_argument("--steps", type=int, default=100)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--resume", action="store_true")
args = parser.parse_args()
auto = jax.sharding.AxisType.Auto
mesh = jax.make_mesh((2, 2), ("data", "model"), axis_types=(auto, auto))
specs = {"up": {"kernel": P(None, "model"), "bias": P("model")}, "down": {"kernel": P("model"), "bias": P()}}
optimizer = optax.adam(1e-2)
rows, test = rings(1, 1024), rings(4, 512)
keys = jax.random.split(jax.random.key(100 + args.seed))
params = {"up": dense_init(keys[0], 2, 64), "down": dense_init(keys[1], 64, 2)}
params = jax.device_put(params, jax.tree.map(lambda spec: NamedSharding(mesh, spec), specs))
state = params, optimizer.init(params)
start, saved = 0, args.run / "state.pickle" if args.run else None
if args.resume and saved.exists():
    start, state = pickle.loads(saved.read_bytes())
for i in range(start, args.steps):
    state = step(state, jax.device_put(batch_at(rows, i, args.seed), NamedSharding(mesh, P("data"))))
if saved:
    saved.parent.mkdir(parents=True, exist_ok=True)
    saved.write_bytes(pickle.dumps((args.steps, jax.device_get(state))))
print(f"accuracy {jnp.mean(network(state[0], test['x']).argmax(-1) == test['y']):.3f}")
content = b"".join(np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(state))
print("fingerprint", hashlib.sha256(content).hexdigest())
