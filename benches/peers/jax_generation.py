"""usage: jax_generation.py SIZE BATCH TOKENS PROMPT [loop]. The work of benches/generation.cpp in JAX: prefill and a step a token
under jit, the cache donated; with "loop" all tokens in one jitted scan."""

import sys
from functools import partial

import jax
import jax.numpy as jnp

from generation_protocol import arguments, prompts, serve

(vocabulary, positions, width, depth, heads), batch, tokens = arguments()
whole_loop = "loop" in sys.argv[5:]


def weights():
    keys = iter(jax.random.split(jax.random.key(0), 8 * depth + 3))
    draw = lambda *shape: 0.02 * jax.random.normal(next(keys), shape)
    dense = lambda i, o: {"kernel": draw(i, o), "bias": jnp.zeros(o)}
    norm = lambda: {"gamma": jnp.ones(width), "beta": jnp.zeros(width)}
    blocks = [
        {"norm_0": norm(), "qkv": dense(width, 3 * width), "out": dense(width, width), "norm_1": norm(),
         "dense_0": dense(width, 4 * width), "dense_1": dense(4 * width, width)} for _ in range(depth)]
    return {"tokens": draw(vocabulary, width), "positions": draw(positions, width), "blocks": blocks, "norm": norm(),
            "head": draw(width, vocabulary)}


def norm(w, x):
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * w["gamma"] + w["beta"]


dense = lambda w, x: x @ w["kernel"] + w["bias"]


def forward(w, cache, tokens, start):
    """The logits of the last of the tokens [N, T] at positions from start on, and the cache with them."""
    length = tokens.shape[1]
    x = w["tokens"][tokens] + jax.lax.dynamic_slice_in_dim(w["positions"], start, length)
    seen = jnp.arange(positions)[None] <= start + jnp.arange(length)[:, None]
    new = []
    for block, (keys, values) in zip(w["blocks"], cache):
        q, k, v = (part.reshape(batch, length, heads, -1)
                   for part in jnp.split(dense(block["qkv"], norm(block["norm_0"], x)), 3, -1))
        keys = jax.lax.dynamic_update_slice_in_dim(keys, k, start, 1)
        values = jax.lax.dynamic_update_slice_in_dim(values, v, start, 1)
        y = jax.nn.dot_product_attention(q, keys, values, mask=seen[None, None])
        x = x + dense(block["out"], y.reshape(batch, length, width))
        x = x + dense(block["dense_1"], jax.nn.gelu(dense(block["dense_0"], norm(block["norm_1"], x))))
        new.append((keys, values))
    return norm(w["norm"], x[:, -1]) @ w["head"], new


@partial(jax.jit, donate_argnums=1)
def step(w, cache, tokens, start):
    logits, cache = forward(w, cache, tokens, start)
    return jnp.argmax(logits, -1)[:, None], cache, start + tokens.shape[1]


@partial(jax.jit, donate_argnums=1)
def all_steps(w, cache, token, start):
    def body(carry, _):
        token, cache, start = carry
        return step(w, cache, token, start), token
    return jax.lax.scan(body, (token, cache, start), length=tokens)[1]


w, given = weights(), jnp.asarray(prompts(batch), jnp.int32)
shape = (batch, positions, heads, width // heads)


def once():
    cache = [(jnp.zeros(shape), jnp.zeros(shape)) for _ in range(depth)]
    token, cache, start = step(w, cache, given, jnp.int32(0))
    if whole_loop:
        return jax.block_until_ready(all_steps(w, cache, token.astype(jnp.int32), start))
    drawn = [token]
    for _ in range(tokens - 1):
        token, cache, start = step(w, cache, token, start)
        drawn.append(token)
    return jax.block_until_ready(drawn)


serve(once)
