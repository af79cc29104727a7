"""The same in JAX and Optax: stripes, augmentation, the average of the weights."""

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
    keys = jax.random.split(jax.random.key(seed), 3)
    y = jax.random.randint(keys[0], (rows,), 0, 4)
    angle = (y * 0.785398).reshape(rows, 1, 1, 1)
    phase = jax.random.uniform(keys[1], (rows, 1, 1, 1), maxval=6.28)
    i, j = jnp.arange(12.0).reshape(12, 1, 1), jnp.arange(12.0).reshape(1, 12, 1)
    wave = jnp.sin(1.2 * (jnp.cos(angle) * i + jnp.sin(angle) * j) + phase)
    return {"x": wave + 1.5 * jax.random.normal(keys[2], (rows, 12, 12, 1)), "y": y}


def augmented(key, image):
    shift, middle = jax.random.randint(key, (2, 2), jnp.array([[0], [0]]), jnp.array([[5], [12]]))
    image = jax.lax.dynamic_slice(jnp.pad(image, ((2, 2), (2, 2), (0, 0))), (*shift, 0), (12, 12, 1))
    i, j = jnp.arange(12).reshape(12, 1, 1), jnp.arange(12).reshape(1, 12, 1)
    return jnp.where((abs(i - middle[0]) <= 1) & (abs(j - middle[1]) <= 1), 0.0, image)


def conv(p, x):
    y = jax.lax.conv_general_dilated(x, p["kernel"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return y + p["bias"]


def max_pool(x):
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def init(key):
    keys, glorot = jax.random.split(key, 3), jax.nn.initializers.glorot_uniform()
    shapes = {"first": (3, 3, 1, 8), "second": (3, 3, 8, 16), "head": (144, 4)}
    return {n: {"kernel": glorot(k, s), "bias": jnp.zeros(s[-1])} for k, (n, s) in zip(keys, shapes.items())}


def network(params, x):
    h = max_pool(jax.nn.relu(conv(params["first"], x)))
    h = max_pool(jax.nn.relu(conv(params["second"], h)))
    return h.reshape(len(h), -1) @ params["head"]["kernel"] + params["head"]["bias"]


def loss(params, batch):
    return optax.softmax_cross_entropy_with_integer_labels(network(params, batch["x"]), batch["y"]).mean()


@jax.jit
def step(state, batch, key):
    params, opt_state, average = state
    x = jax.vmap(augmented)(jax.random.split(key, len(batch["x"])), batch["x"])
    gradients = jax.grad(loss)(params, {"x": x, "y": batch["y"]})
    updates, opt_state = optimizer.update(gradients, opt_state)
    params = optax.apply_updates(params, updates)
    return params, opt_state, optax.incremental_update(params, average, 0.05)


parser = argparse.ArgumentParser()
parser.add_argument("--run", type=pathlib.Path)
parser.add_argument("--steps", type=int, default=120)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--resume", action="store_true")
args = parser.parse_args()
optimizer = optax.adam(3e-3)
rows, test = stripes(1, 1024), stripes(4, 512)
params = init(jax.random.key(100 + args.seed))
state = params, optimizer.init(params), params
start, saved = 0, args.run / "state.pickle" if args.run else None
if args.resume and saved.exists():
    start, state = pickle.loads(saved.read_bytes())
for i in range(start, args.steps):
    state = step(state, batch_at(rows, i, args.seed), jax.random.fold_in(jax.random.key(200 + args.seed), i))
if saved:
    saved.parent.mkdir(parents=True, exist_ok=True)
    saved.write_bytes(pickle.dumps((args.steps, jax.device_get(state))))
print(f"accuracy {jnp.mean(network(state[2], test['x']).argmax(-1) == test['y']):.3f}")
content = b"".join(np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(state))
print("fingerprint", hashlib.sha256(content).hexdigest())
