"""A language model of GPT-2's smallest shape (12 layers, d_model 768, 12 heads of 64, d_ff 3072, length 1024, vocabulary
50,304, bfloat16) on one GPU, by mtf-train and by PyTorch (compiled, flash attention) in turns: tokens per second and
model-FLOPs utilisation.

    python tests/bench/gpt2_vs_torch.py build/bin/mtf-train [--batch 16] [--steps 60] [--rounds 3]
        [--peak 989e12] [--layers 12] [--d-model 768] [--length 1024]

The texts are random words. Speeds are those of the last two thirds of the steps; FLOPs of a token are 6 for each
parameter of a contraction plus 6 * length * d_model for each layer of causal attention. Needs torch.
"""

import argparse
import json
import os
import random
import subprocess
import tempfile
import time

import torch
import torch.nn.functional as F
from torch import nn

VOCABULARY = 50304
SPECIAL = 2  # padding and end: the vocabulary's own


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mtf_train")
    for name, default in (("batch", 16), ("steps", 60), ("rounds", 3), ("layers", 12), ("d-model", 768), ("length", 1024)):
        parser.add_argument("--" + name, type=int, default=default)
    parser.add_argument("--peak", type=float, default=989e12)
    return parser.parse_args()


class Layer(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.heads = d_model // 64
        self.norm_1, self.norm_2 = nn.RMSNorm(d_model), nn.RMSNorm(d_model)
        self.qkv = nn.Linear(d_model, 3 * d_model, bias=False)
        self.out = nn.Linear(d_model, d_model, bias=False)
        self.up, self.down = nn.Linear(d_model, 4 * d_model, bias=False), nn.Linear(4 * d_model, d_model, bias=False)

    def forward(self, x):
        batch, length, d_model = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, 64).transpose(1, 2) for part in self.qkv(self.norm_1(x)).chunk(3, dim=-1)
        )
        heads = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(heads.transpose(1, 2).reshape(batch, length, d_model))
        return x + self.down(F.relu(self.up(self.norm_2(x))))


class LanguageModel(nn.Module):
    def __init__(self, layers, d_model, length):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, d_model), nn.Embedding(length, d_model)
        self.layers = nn.ModuleList(Layer(d_model) for _ in range(layers))
        self.norm = nn.RMSNorm(d_model)
        self.logits = nn.Linear(d_model, VOCABULARY, bias=False)

    def forward(self, ids, targets):
        x = self.tokens(ids) + self.positions.weight[: ids.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return F.cross_entropy(self.logits(self.norm(x)).flatten(0, 1).float(), targets.flatten())


def torch_speed(options):
    torch.manual_seed(1)
    model = LanguageModel(options.layers, options.d_model, options.length).cuda()
    step_model = torch.compile(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)
    ids = torch.randint(VOCABULARY, (options.batch, options.length + 1), device="cuda")
    begin = options.steps // 3
    for step in range(options.steps):
        if step == begin:
            torch.cuda.synchronize()
            start = time.perf_counter()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = step_model(ids[:, :-1], ids[:, 1:])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    torch.cuda.synchronize()
    speed = (options.steps - begin) * options.batch * options.length / (time.perf_counter() - start)
    del model, step_model, optimizer
    torch.cuda.empty_cache()
    return speed


def prepare(options, directory):
    """A vocabulary of made-up words, a text of them, and the configuration."""
    count = VOCABULARY - SPECIAL
    words = [f"w{i:05d}" for i in range(count)]
    with open(f"{directory}/words.subwords", "w") as file:
        file.writelines(f"'{word}_'\n" for word in ["<pad>", "<EOS>"] + words)
    generator = random.Random(1)
    with open(f"{directory}/text.txt", "w") as file:
        for _ in range(options.batch * 8):
            file.write(" ".join(generator.choices(words, k=options.length)) + "\n")
    heads = options.d_model // 64
    config = {
        "data": {
            "train": {"type": "text", "path": "text.txt"},
            "vocabulary": {"type": "t2t", "path": "words.subwords"},
            "sequence_length": options.length,
            "packing": "dense",
        },
        "model": {
            "type": "lm",
            "num_layers": options.layers,
            "d_model": options.d_model,
            "max_length": options.length,
            "block": ["SelfAttention", "DenseReluDense"],
            "layer_defaults": {
                "SelfAttention": {"num_heads": heads, "key_value_size": 64},
                "DenseReluDense": {"hidden_size": 4 * options.d_model},
            },
        },
        "optimizer": "adam",
        "learning_rate": 1e-4,
        "precision": {"activation": "bfloat16"},
        "devices": "cuda",
        "train": {"steps": options.steps, "batch_size": options.batch, "log_every": 1},
    }
    with open(f"{directory}/gpt2.yaml", "w") as file:
        json.dump(config, file)


def mtf_speed(options, directory, number):
    run = f"run-{number}"
    subprocess.run([os.path.abspath(options.mtf_train), "gpt2.yaml", f"run.model_dir={run}"], cwd=directory, check=True,
                   stdout=subprocess.DEVNULL)
    with open(f"{directory}/{run}/metrics.jsonl") as file:
        lines = [json.loads(line) for line in file][options.steps // 3 :]
    return sorted(line["tokens_per_second"] for line in lines)[len(lines) // 2]


def main():
    options = arguments()
    weights = options.layers * 12 * options.d_model**2 + VOCABULARY * options.d_model
    flops = 6 * weights + 6 * options.layers * options.length * options.d_model
    with tempfile.TemporaryDirectory() as directory:
        prepare(options, directory)
        for number in range(options.rounds):
            ours, theirs = mtf_speed(options, directory, number), torch_speed(options)
            print(
                f"mtf-train {ours:,.0f} tokens/s, MFU {ours * flops / options.peak:.1%}; PyTorch {torch.__version__} "
                f"{theirs:,.0f} tokens/s, MFU {theirs * flops / options.peak:.1%}; ratio {ours / theirs:.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
