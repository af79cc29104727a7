"""The same in JAX and Optax: a character model that writes on."""

import argparse
import hashlib
import pathlib
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import optax


def batch_at(rows, step, seed, size=16):
    """Batches of every epoch in an order of its own."""
    n = len(jax.tree.leaves(rows)[0])
    epoch, place = divmod(step, n // size)
    order = jax.random.permutation(jax.random.fold_in(jax.random.key(seed), epoch), n)
    return jax.tree.map(lambda leaf: leaf[order[place * size : (place + 1) * size]], rows)


LENGTH, WIDTH, DEPTH, HEADS = 32, 32, 2, 2
TEXT = (
    "the quick brown fox jumps over the lazy dog. pack my box with five dozen liquor jugs. how vexingly quick daft "
    "zebras jump. sphinx of black quartz, judge my vow. the five boxing wizards jump quickly. "
)


def windows():
    codes = np.frombuffer(TEXT.encode(), np.uint8).astype(np.int32)
    cut = np.lib.stride_tricks.sliding_window_view(codes, LENGTH + 1)
    return {"x": jnp.array(cut[:, :-1]), "y": jnp.array(cut[:, 1:])}


def dense(p, x):
    return x @ p["kernel"] + p["bias"]


def dense_init(key, inputs, units):
    return {"kernel": jax.nn.initializers.glorot_uniform()(key, (inputs, units)), "bias": jnp.zeros(units)}


def init(key):
    keys = iter(jax.random.split(key, 3 + 4 * DEPTH))
    norm = lambda: {"scale": jnp.ones(WIDTH), "bias": jnp.zeros(WIDTH)}
    block = lambda: {
        "norm_1": norm(),
        "qkv": dense_init(next(keys), WIDTH, 3 * WIDTH),
        "out": dense_init(next(keys), WIDTH, WIDTH),
        "norm_2": norm(),
        "up": dense_init(next(keys), WIDTH, 4 * WIDTH),
        "down": dense_init(next(keys), 4 * WIDTH, WIDTH),
    }
    return {
        "tokens": 0.05 * jax.random.normal(next(keys), (128, WIDTH)),
        "positions": 0.05 * jax.random.normal(next(keys), (LENGTH, WIDTH)),
        "blocks": [block() for _ in range(DEPTH)],
        "norm": norm(),
        "head": dense_init(next(keys), WIDTH, 128),
    }


def layer_norm(p, x):
    return jax.nn.standardize(x, epsilon=1e-6) * p["scale"] + p["bias"]


def attention(p, x):
    q, k, v = jnp.split(dense(p["qkv"], x).reshape(*x.shape[:2], HEADS, -1), 3, -1)
    y = jax.nn.dot_product_attention(q, k, v, is_causal=True)
    return dense(p["out"], y.reshape(x.shape))


def network(params, tokens):
    x = params["tokens"][tokens] + params["positions"]
    for p in params["blocks"]:
        x = x + attention(p, layer_norm(p["norm_1"], x))
        x = x + dense(p["down"], jax.nn.gelu(dense(p["up"], layer_norm(p["norm_2"], x))))
    return dense(params["head"], layer_norm(params["norm"], x))


def loss(params, batch):
    return optax.softmax_cross_entropy_with_integer_labels(network(params, batch["x"]), batch["y"]).mean()


@jax.jit
def step(state, batch):
    params, opt_state = state
    gradients = jax.grad(loss)(params, batch)
    updates, opt_state = optimizer.update(gradients, opt_state, params)
    return optax.apply_updates(params, updates), opt_state


@jax.jit
def next_token(params, tokens):
    return network(params, tokens)[0, -1].argmax()


parser = argparse.ArgumentParser()
parser.add_argument("--run", type=pathlib.Path)
parser.add_argument("--steps", type=int, default=150)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--resume", action="store_true")
args = parser.parse_args()
optimizer = optax.adam(1e-2)
rows = windows()
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
written = TEXT[:LENGTH]
for _ in range(60):
    tokens = np.frombuffer(written[-LENGTH:].encode(), np.uint8).astype(np.int32)[None]
    written += chr(next_token(state[0], tokens))
print(written)
print(f"loss {loss(state[0], rows):.3f}")
content = b"".join(np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(state))
print("fingerprint", hashlib.sha256(content).hexdigest())
