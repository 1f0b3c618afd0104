"""T5 in double precision, from a directory in Hugging Face form: what check_t5.py measures rounding by."""
import json

import numpy as np
from safetensors.numpy import load_file


def buckets(relative, count, bidirectional, max_distance=128):
    """The bucket of each memory position minus query position (Raffel et al., 2020, section 2.1)."""
    distance, first = -relative, 0
    if bidirectional:
        count //= 2
        first, distance = (distance < 0) * count, np.abs(distance)
    distance = np.maximum(distance, 0)
    exact = count // 2
    far = np.log(np.maximum(distance, 1).astype(np.float32) / exact) / np.float32(np.log(max_distance / exact))
    far = np.minimum(exact + (far * (count - exact)).astype(np.int32), count - 1)
    return first + np.where(distance < exact, distance, far)


class T5:
    def __init__(self, directory):
        self.config = json.load(open(directory + "/config.json"))
        self.weights = {name: w.astype(np.float64) for name, w in load_file(directory + "/model.safetensors").items()}

    def project(self, x, name):
        return x @ self.weights[name + ".weight"].T

    def norm(self, x, name):
        epsilon = self.config.get("layer_norm_epsilon", 1e-6)
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon) * self.weights[name + ".weight"]

    def attention(self, x, memory, name, bias):
        def heads(y, letter):
            y = self.project(y, f"{name}.{letter}")
            return y.reshape(*y.shape[:2], self.config["num_heads"], self.config["d_kv"])
        scores = np.einsum("bqhd,bmhd->bhqm", heads(x, "q"), heads(memory, "k")) + bias
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        mixed = np.einsum("bhqm,bmhd->bqhd", weights, heads(memory, "v"))
        return self.project(mixed.reshape(*mixed.shape[:2], -1), name + ".o")

    def feed_forward(self, x, name):
        if name + ".wi.weight" in self.weights:
            return self.project(np.maximum(self.project(x, name + ".wi"), 0), name + ".wo")
        gate = self.project(x, name + ".wi_0")
        gate = 0.5 * gate * (1 + np.tanh(np.sqrt(2 / np.pi) * (gate + 0.044715 * gate**3)))
        return self.project(gate * self.project(x, name + ".wi_1"), name + ".wo")

    def position_bias(self, side, length):
        relative = np.arange(length)[None, :] - np.arange(length)[:, None]
        table = self.weights[f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"]
        return table[buckets(relative, len(table), side == "encoder")].transpose(2, 0, 1)[None]

    def stack(self, side, ids, visible, memory=None, memory_visible=None):
        def hidden(mask):
            return np.where(mask, 0.0, -1e9)
        x = self.weights["shared.weight"][ids]
        bias = self.position_bias(side, ids.shape[1]) + hidden(visible)
        layers = self.config["num_layers" if side == "encoder" else "num_decoder_layers"]
        for block in range(layers):
            name = f"{side}.block.{block}.layer."
            y = self.norm(x, name + "0.layer_norm")
            x = x + self.attention(y, y, name + "0.SelfAttention", bias)
            if memory is not None:
                y = self.norm(x, name + "1.layer_norm")
                x = x + self.attention(y, memory, name + "1.EncDecAttention", hidden(memory_visible))
            last = name + ("1" if memory is None else "2")
            x = x + self.feed_forward(self.norm(x, last + ".layer_norm"), last + ".DenseReluDense")
        return self.norm(x, side + ".final_layer_norm")


def logits(directory, inputs, targets):
    """[batch, length, vocab] of the targets, which the decoder reads one place to the right."""
    model = T5(directory)
    real = (inputs != 0)[:, None, None, :]
    memory = model.stack("encoder", inputs, real)
    read = np.pad(targets, ((0, 0), (1, 0)))[:, :-1]
    before = np.tril(np.ones((targets.shape[1], targets.shape[1]), bool))
    x = model.stack("decoder", read, before, memory, real)
    config = model.config
    if config.get("scale_decoder_outputs", config.get("tie_word_embeddings", True)):
        x = x * config["d_model"] ** -0.5
    return x @ model.weights.get("lm_head.weight", model.weights["shared.weight"]).T
