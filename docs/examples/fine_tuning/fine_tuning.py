"""The same in JAX and Optax: a frozen backbone with a new head."""

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


def rings(seed, rows, sides):
    x = 1.5 * jax.random.normal(jax.random.key(seed), (rows, 2))
    ring = (jnp.sum(x**2, 1) > 2.5).astype(jnp.int32)
    return {"x": x, "y": 2 * ring + (x[:, 0] > 0) if sides else ring}


def dense(p, x):
    return x @ p["kernel"] + p["bias"]


def dense_init(key, inputs, units):
    return {"kernel": jax.nn.initializers.glorot_uniform()(key, (inputs, units)), "bias": jnp.zeros(units)}


def init(key, classes):
    keys = jax.random.split(key, 3)
    backbone = {"first": dense_init(keys[0], 2, 64), "second": dense_init(keys[1], 64, 64)}
    return {"backbone": backbone, "head": dense_init(keys[2], 64, classes)}


def network(params, x):
    h = jax.nn.relu(dense(params["backbone"]["first"], x))
    return dense(params["head"], jax.nn.relu(dense(params["backbone"]["second"], h)))


def loss(params, batch):
    return optax.softmax_cross_entropy_with_integer_labels(network(params, batch["x"]), batch["y"]).mean()


def step_of(optimizer):
    @jax.jit
    def step(state, batch):
        params, opt_state = state
        updates, opt_state = optimizer.update(jax.grad(loss)(params, batch), opt_state, params)
        return optax.apply_updates(params, updates), opt_state

    return step


parser = argparse.ArgumentParser()
parser.add_argument("--run", type=pathlib.Path)
parser.add_argument("--steps", type=int, default=150)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--resume", action="store_true")
args = parser.parse_args()
adam = optax.adam(1e-2)
pretraining, old_rows, params = step_of(adam), rings(1, 1024, False), init(jax.random.key(100 + args.seed), 2)
pretrained = params, adam.init(params)
for i in range(100):
    pretrained = pretraining(pretrained, batch_at(old_rows, i, args.seed))

labels = {"backbone": "frozen", "head": "trained"}
optimizer = optax.multi_transform({"frozen": optax.set_to_zero(), "trained": adam}, labels)
step, rows, test = step_of(optimizer), rings(4, 1024, True), rings(7, 512, True)
params = init(jax.random.key(300 + args.seed), 4) | {"backbone": pretrained[0]["backbone"]}
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
