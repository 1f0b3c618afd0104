"""The models of shapes.py in PyTorch: each is called with (inputs, targets) and returns the loss."""

import torch
import torch.nn.functional as F
from shapes import CLASSES, FIRST_ID, LAST_ID, SHAPES
from torch import nn


class Norm(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(size))

    def forward(self, x):
        return F.rms_norm(x, (x.shape[-1],), self.scale, 1e-6)


class Attention(nn.Module):
    def __init__(self, size, heads, causal):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.q, self.k, self.v, self.o = (nn.Linear(size, size, bias=False) for _ in range(4))

    def forward(self, x, memory):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (self.q(x), self.k(memory), self.v(memory)))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.o(y.transpose(1, 2).flatten(2))


class Block(nn.Module):
    """Attention to itself, with `cross` to a memory too, and a hidden layer; a norm before each."""

    def __init__(self, shape, causal, cross):
        super().__init__()
        size, heads = shape["d_model"], shape["heads"]
        self.attention = Attention(size, heads, causal)
        self.cross = Attention(size, heads, False) if cross else None
        self.wi, self.wo = nn.Linear(size, shape["d_ff"], bias=False), nn.Linear(shape["d_ff"], size, bias=False)
        self.norms = nn.ModuleList(Norm(size) for _ in range(3 if cross else 2))

    def forward(self, x, memory=None):
        y = self.norms[0](x)
        x = x + self.attention(y, y)
        if self.cross is not None:
            x = x + self.cross(self.norms[1](x), memory)
        return x + self.wo(F.relu(self.wi(self.norms[-1](x))))


class Embedding(nn.Module):
    """Tokens and positions; the table of tokens makes the logits too."""

    def __init__(self, shape):
        super().__init__()
        self.tokens = nn.Embedding(shape["vocabulary"], shape["d_model"])
        self.positions = nn.Embedding(shape["length"], shape["d_model"])
        for table in (self.tokens, self.positions):
            nn.init.normal_(table.weight, std=0.02)

    def forward(self, ids):
        return self.tokens(ids) + self.positions.weight

    def loss(self, x, targets):
        return F.cross_entropy(F.linear(x, self.tokens.weight).flatten(0, 1), targets.flatten())


class LanguageModel(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.embedding, self.norm = Embedding(shape), Norm(shape["d_model"])
        self.blocks = nn.ModuleList(Block(shape, True, False) for _ in range(shape["layers"]))

    def forward(self, _, targets):
        x = self.embedding(F.pad(targets[:, :-1], (1, 0)))
        for block in self.blocks:
            x = block(x)
        return self.embedding.loss(self.norm(x), targets)


class EncoderDecoder(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.embedding = Embedding(shape)
        self.encoder = nn.ModuleList(Block(shape, False, False) for _ in range(shape["layers"]))
        self.decoder = nn.ModuleList(Block(shape, True, True) for _ in range(shape["layers"]))
        self.norms = nn.ModuleList(Norm(shape["d_model"]) for _ in range(2))

    def forward(self, inputs, targets):
        memory = self.embedding(inputs)
        for block in self.encoder:
            memory = block(memory)
        memory, x = self.norms[0](memory), self.embedding(F.pad(targets[:, :-1], (1, 0)))
        for block in self.decoder:
            x = block(x, memory)
        return self.embedding.loss(self.norms[1](x), targets)


class Residual(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs),
        )  # fmt: skip
        self.shortcut = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        return F.relu(self.layers(x) + self.shortcut(x))


def resnet18():
    layers, inputs = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()], 64
    for outputs, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [Residual(inputs, outputs, stride), Residual(outputs, outputs, 1)]
        inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, CLASSES))


def cnn():
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(7 * 7 * 64, 128), nn.ReLU(), nn.Linear(128, CLASSES),
    )  # fmt: skip


def mlp():
    first, *sizes = SHAPES["mlp"]["sizes"]
    layers = [nn.Flatten()]
    for size in sizes:
        layers += [nn.Linear(first, size), nn.ReLU()]
        first = size
    return nn.Sequential(*layers[:-1])


class Classifier(nn.Module):
    def __init__(self, layers, memory_format):
        super().__init__()
        self.layers = layers.to(memory_format=memory_format)

    def forward(self, images, labels):
        return F.cross_entropy(self.layers(images), labels)


def make(model, variant):
    """The model and a batch of random inputs and targets. `variant` is channels_last, transformers or nothing."""
    shape = SHAPES[model]
    rows = shape["rows"]
    if "image" in shape:
        height, width, channels = (*shape["image"], 1)[:3]
        memory_format = torch.channels_last if variant == "channels_last" else torch.contiguous_format
        images = torch.rand(rows, channels, height, width).contiguous(memory_format=memory_format)
        layers = {"mlp": mlp, "cnn": cnn, "resnet18": resnet18}[model]()
        return Classifier(layers, memory_format), images, torch.randint(CLASSES, (rows,))
    inputs, targets = (torch.randint(FIRST_ID, LAST_ID + 1, (rows, shape["length"])) for _ in range(2))
    if model == "lm":
        return LanguageModel(shape), inputs, targets
    if model == "encdec":
        return EncoderDecoder(shape), inputs, targets
    from torch_experts import ExpertsModel

    return ExpertsModel(shape, grouped=variant != "transformers"), inputs, targets
