"""Trains lm, encdec or mlp of shapes.py by JAX and optax until it is killed, on one batch; a line of JSON with the number of
weights, then one for each step.

    python jax_training.py MODEL THREADS OPTIMIZER
"""

import json
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
from shapes import CLASSES, FIRST_ID, LAST_ID, SHAPES

random = np.random.default_rng(1)


def weight(*shape, scale=None):
    return jnp.asarray(random.standard_normal(shape, np.float32) * (scale or shape[0] ** -0.5))


def norm(x, scale):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * scale


def attention_weights(size):
    return {name: weight(size, size) for name in "qkvo"}


def attention(weights, x, memory, heads, causal):
    split = lambda t: t.reshape(*t.shape[:2], heads, -1)
    q, k, v = split(x @ weights["q"]), split(memory @ weights["k"]), split(memory @ weights["v"])
    logits = jnp.einsum("bqhd,bkhd->bhqk", q, k) * q.shape[-1] ** -0.5
    if causal:
        logits = jnp.where(jnp.tril(jnp.ones(logits.shape[-2:], bool)), logits, -1e9)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(logits), v).reshape(x.shape) @ weights["o"]


def block_weights(shape, cross):
    size, hidden = shape["d_model"], shape["d_ff"]
    weights = {"attention": attention_weights(size), "wi": weight(size, hidden), "wo": weight(hidden, size)}
    weights["norms"] = [jnp.ones(size) for _ in range(3 if cross else 2)]
    return {**weights, "cross": attention_weights(size)} if cross else weights


def block(weights, x, memory, heads, causal):
    y = norm(x, weights["norms"][0])
    x = x + attention(weights["attention"], y, y, heads, causal)
    if "cross" in weights:
        x = x + attention(weights["cross"], norm(x, weights["norms"][1]), memory, heads, False)
    return x + jax.nn.relu(norm(x, weights["norms"][-1]) @ weights["wi"]) @ weights["wo"]


def cross_entropy(logits, targets):
    chosen = jnp.take_along_axis(logits, targets[..., None], -1)[..., 0]
    return jnp.mean(jax.nn.logsumexp(logits, -1) - chosen)


def embedding_weights(shape):
    return {
        "tokens": weight(shape["vocabulary"], shape["d_model"], scale=0.02),
        "positions": weight(shape["length"], shape["d_model"], scale=0.02),
    }


def language_model(shape):
    weights = {**embedding_weights(shape), "norm": jnp.ones(shape["d_model"])}
    weights["blocks"] = [block_weights(shape, False) for _ in range(shape["layers"])]

    def loss(weights, _, targets):
        x = weights["tokens"][jnp.pad(targets[:, :-1], ((0, 0), (1, 0)))] + weights["positions"]
        for each in weights["blocks"]:
            x = block(each, x, None, shape["heads"], True)
        return cross_entropy(norm(x, weights["norm"]) @ weights["tokens"].T, targets)

    return weights, loss


def encoder_decoder(shape):
    weights = {**embedding_weights(shape), "norms": [jnp.ones(shape["d_model"]) for _ in range(2)]}
    for stack, cross in (("encoder", False), ("decoder", True)):
        weights[stack] = [block_weights(shape, cross) for _ in range(shape["layers"])]

    def loss(weights, inputs, targets):
        embed = lambda ids: weights["tokens"][ids] + weights["positions"]
        memory = embed(inputs)
        for each in weights["encoder"]:
            memory = block(each, memory, None, shape["heads"], False)
        memory, x = norm(memory, weights["norms"][0]), embed(jnp.pad(targets[:, :-1], ((0, 0), (1, 0))))
        for each in weights["decoder"]:
            x = block(each, x, memory, shape["heads"], True)
        return cross_entropy(norm(x, weights["norms"][1]) @ weights["tokens"].T, targets)

    return weights, loss


def mlp(shape):
    weights = [(weight(i, o), jnp.zeros(o)) for i, o in zip(shape["sizes"], shape["sizes"][1:])]

    def loss(weights, x, targets):
        for kernel, bias in weights[:-1]:
            x = jax.nn.relu(x @ kernel + bias)
        kernel, bias = weights[-1]
        return cross_entropy(x @ kernel + bias, targets)

    return weights, loss


def main():
    name, _, optimizer = sys.argv[1:]
    shape = SHAPES[name]
    weights, loss = {"lm": language_model, "encdec": encoder_decoder, "mlp": mlp}[name](shape)
    if name == "mlp":
        inputs, targets = (
            random.random((shape["rows"], shape["sizes"][0]), np.float32),
            random.integers(CLASSES, size=shape["rows"]),
        )
    else:
        inputs, targets = (random.integers(FIRST_ID, LAST_ID + 1, (shape["rows"], shape["length"])) for _ in range(2))
    inputs, targets = jnp.asarray(inputs), jnp.asarray(targets)
    update = {"adam": optax.adam, "sgd": optax.sgd, "adafactor": optax.adafactor}[optimizer](1e-3)
    state = update.init(weights)

    def train(weights, state, inputs, targets):
        value, gradients = jax.value_and_grad(loss)(weights, inputs, targets)
        changes, state = update.update(gradients, state, weights)
        return optax.apply_updates(weights, changes), state, value

    train = jax.jit(train, donate_argnums=(0, 1))
    print(json.dumps({"weights": sum(leaf.size for leaf in jax.tree_util.tree_leaves(weights))}), flush=True)
    step = 0
    while True:
        weights, state, value = train(weights, state, inputs, targets)
        step += 1
        print(json.dumps({"step": step, "loss": float(value)}), flush=True)


main()
