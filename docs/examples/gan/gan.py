"""The same in JAX and Optax: a generator and a critic in turn."""

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
    keys = jax.random.split(key, 4)
    generator = {"first": dense_init(keys[0], 8, 64), "second": dense_init(keys[1], 64, 64)}
    return generator, {"first": dense_init(keys[2], 64, 64), "second": dense_init(keys[3], 64, 1)}


def generate(params, key, rows):
    noise = jax.random.normal(key, (rows, 8))
    return jax.nn.sigmoid(dense(params["second"], jax.nn.relu(dense(params["first"], noise))))


def judge(params, x):
    return dense(params["second"], jax.nn.leaky_relu(dense(params["first"], x), 0.2))


def critic_loss(critic, generator, x, key):
    on_real, on_drawn = judge(critic, x), judge(critic, generate(generator, key, len(x)))
    real_loss = optax.sigmoid_binary_cross_entropy(on_real, jnp.ones_like(on_real)).mean()
    return real_loss + optax.sigmoid_binary_cross_entropy(on_drawn, jnp.zeros_like(on_drawn)).mean()


def generator_loss(generator, critic, x, key):
    verdict = judge(critic, generate(generator, key, len(x)))
    return optax.sigmoid_binary_cross_entropy(verdict, jnp.ones_like(verdict)).mean()


@jax.jit
def step(state, batch, key):
    generator, critic, generator_state, critic_state = state
    keys = jax.random.split(key)
    gradients = jax.grad(critic_loss)(critic, generator, batch, keys[0])
    updates, critic_state = optimizer.update(gradients, critic_state)
    critic = optax.apply_updates(critic, updates)
    gradients = jax.grad(generator_loss)(generator, critic, batch, keys[1])
    updates, generator_state = optimizer.update(gradients, generator_state)
    return optax.apply_updates(generator, updates), critic, generator_state, critic_state


parser = argparse.ArgumentParser()
parser.add_argument("--run", type=pathlib.Path)
parser.add_argument("--steps", type=int, default=300)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--resume", action="store_true")
args = parser.parse_args()
optimizer = optax.adam(1e-3, 0.5)
rows = stripes(1, 1024)
generator, critic = init(jax.random.key(100 + args.seed))
state = generator, critic, optimizer.init(generator), optimizer.init(critic)
start, saved = 0, args.run / "state.pickle" if args.run else None
if args.resume and saved.exists():
    start, state = pickle.loads(saved.read_bytes())
for i in range(start, args.steps):
    state = step(state, batch_at(rows, i, args.seed), jax.random.fold_in(jax.random.key(200 + args.seed), i))
if saved:
    saved.parent.mkdir(parents=True, exist_ok=True)
    saved.write_bytes(pickle.dumps((args.steps, jax.device_get(state))))
print(f"critic's loss {critic_loss(state[1], state[0], rows, jax.random.key(6)):.2f}")
content = b"".join(np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(state))
print("fingerprint", hashlib.sha256(content).hexdigest())
