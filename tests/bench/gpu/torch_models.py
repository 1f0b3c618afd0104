"""Transformers in PyTorch with the layers of mtf-train's and its weights: RMS norms before attention (whose scale is in
the weights of the queries) and a hidden layer with ReLU, learned positions, logits by the embedding over sqrt(d_model).

A model is made from mtf-train's weights by name and maps ids [batch, length] to the mean loss of a token. q, k and v
are one product, as models in PyTorch have it, and residual sums have the precision of activations on both sides.
"""

import torch
import torch.nn.functional as F
from torch import nn


def parameter(*weights):
    """[outputs, inputs] of matrices [inputs, outputs] side by side, as F.linear takes it."""
    return nn.Parameter(torch.cat(weights, 1).T.contiguous())


class Norm(nn.Module):
    def __init__(self, weights, scope):
        super().__init__()
        self.scale = nn.Parameter(weights[f"{scope}/rms_norm/scale"].clone())

    def forward(self, x):
        return F.rms_norm(x, self.scale.shape, self.scale.to(x.dtype), 1e-6).to(x.dtype)


class SelfAttention(nn.Module):
    def __init__(self, weights, scope, heads, causal):
        super().__init__()
        q, k, v, o = (weights[f"{scope}/SelfAttention/{name}"] for name in "qkvo")
        self.qkv, self.o, self.heads, self.causal = parameter(q, k, v), parameter(o), heads, causal

    def forward(self, x, _):
        return F.linear(mix(F.linear(x, self.qkv).chunk(3, -1), self.heads, self.causal), self.o)


class CrossAttention(nn.Module):
    def __init__(self, weights, scope, heads):
        super().__init__()
        q, k, v, o = (weights[f"{scope}/EncDecAttention/{name}"] for name in "qkvo")
        self.q, self.kv, self.o, self.heads = parameter(q), parameter(k, v), parameter(o), heads

    def forward(self, x, memory):
        k, v = F.linear(memory, self.kv).chunk(2, -1)
        return F.linear(mix((F.linear(x, self.q), k, v), self.heads, False), self.o)


class HiddenLayer(nn.Module):
    def __init__(self, weights, scope):
        super().__init__()
        self.wi, self.wo = (parameter(weights[f"{scope}/DenseReluDense/{name}/kernel"]) for name in ("wi", "wo"))

    def forward(self, x, _):
        return F.linear(F.relu(F.linear(x, self.wi)), self.wo)


def mix(projections, heads, causal):
    """softmax(q k) v of projections [batch, length, heads * d_kv]."""
    q, k, v = (x.unflatten(-1, (heads, -1)).transpose(1, 2) for x in projections)
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=1.0).transpose(1, 2).flatten(2)


class Stack(nn.Module):
    """Layers with a norm before each and residual sums; a norm at the end."""

    def __init__(self, weights, model, count, heads, kinds, causal):
        super().__init__()
        make = {
            "self": lambda scope: SelfAttention(weights, scope, heads, causal),
            "cross": lambda scope: CrossAttention(weights, scope, heads),
            "hidden": lambda scope: HiddenLayer(weights, scope),
        }
        scopes = [(kind, f"{model}/block_{b:03}/layer_{i:03}") for b in range(count) for i, kind in enumerate(kinds)]
        self.layers = nn.ModuleList(make[kind](scope) for kind, scope in scopes)
        self.norms = nn.ModuleList(Norm(weights, scope) for _, scope in scopes)
        self.last = Norm(weights, model)

    def forward(self, x, memory=None):
        for norm, layer in zip(self.norms, self.layers):
            x = x + layer(norm(x), memory)
        return self.last(x)


class Tokens(nn.Module):
    """The tables that ids and logits share."""

    def __init__(self, weights, model, dtype):
        super().__init__()
        self.table = nn.Parameter(weights[f"{model}/embedding"].clone())
        self.positions = nn.Parameter(weights[f"{model}/positional_embedding"].clone())
        self.dtype = dtype

    def embed(self, ids):
        return (F.embedding(ids, self.table) + self.positions[: ids.shape[1]]).to(self.dtype)

    def loss(self, x, ids):
        logits = F.linear(x * self.table.shape[1] ** -0.5, self.table)
        return F.cross_entropy(logits.flatten(0, 1).float(), ids.flatten())


def shifted(ids):
    return F.pad(ids[:, :-1], (1, 0))


class LanguageModel(nn.Module):
    def __init__(self, weights, layers, heads, dtype):
        super().__init__()
        self.tokens = Tokens(weights, "transformer", dtype)
        self.stack = Stack(weights, "transformer", layers, heads, ("self", "hidden"), causal=True)

    def forward(self, targets):
        return self.tokens.loss(self.stack(self.tokens.embed(shifted(targets))), targets)


class EncoderDecoder(nn.Module):
    def __init__(self, weights, layers, heads, dtype):
        super().__init__()
        self.tokens = Tokens(weights, "shared", dtype)
        self.encoder = Stack(weights, "encoder", layers, heads, ("self", "hidden"), causal=False)
        self.decoder = Stack(weights, "decoder", layers, heads, ("self", "cross", "hidden"), causal=True)

    def forward(self, inputs, targets):
        memory = self.encoder(self.tokens.embed(inputs))
        return self.tokens.loss(self.decoder(self.tokens.embed(shifted(targets)), memory), targets)


MODELS = {"lm": LanguageModel, "bitransformer": EncoderDecoder}
