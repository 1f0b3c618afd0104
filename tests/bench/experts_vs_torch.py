"""Steps of training of language models with experts by mtf-train and by PyTorch (eager), on the CPU, in turns.

    python tests/bench/experts_vs_torch.py [build/bin/mtf-train] [--models switch,mixtral] [--threads 1] [--rounds 5]
        [--seconds 4] [--optimizer sgd] [--at-least 0] [--json FILE]

Both models have two blocks of attention (rotary positions) and experts, vectors of 256, and rows of 256 random bytes, 16
in a batch. switch has 32 experts of 1,024, of which a token uses one; mixtral 8 experts of 512 (SwiGLU), of which it uses
two. mtf-train computes them without a capacity (`dispatch: dropless`). In PyTorch "transformers" is MixtralForCausalLM,
and "grouped" the same with experts whose rows are sorted by expert and multiplied expert by expert. Each model is also
trained dense by mtf-train: a feed-forward layer of the size that a token uses in place of the experts.

mtf-train also reads and shuffles its texts and computes the losses of its router; PyTorch has one batch in memory.
Programs of one model have equal numbers of weights, which is checked (but for the dense one). How turns are timed and
figures are computed is in turns.py. The exit status is 1 if a ratio of CPU times, the faster one of PyTorch / mtf-train,
is less than --at-least. --json writes all figures to FILE. Needs torch, transformers and numpy.
"""

import json
import os
import signal
import sys
import tempfile
import time

import numpy as np
from turns import Program, Table, options_of_turns, passive_threads, start_mtf_train, take_turns, write_figures

ROWS, LENGTH, D_MODEL, HEADS, LAYERS = 16, 256, 256, 4, 2
VOCABULARY = 384  # 259 bytes and special tokens, filled up
SIZES = {  # experts, those of a token, size of one, and its activation
    "switch": (32, 1, 1024, "relu"),
    "mixtral": (8, 2, 512, "[swish, linear]"),
}


def write_configuration(model, dense, optimizer, work):
    """The data and the YAML of mtf-train, which has no last step; returns its path."""
    experts, chosen, size, activation = SIZES[model]
    text = f"{work}/text.txt"
    if not os.path.exists(text):
        random = np.random.default_rng(1)
        letters = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz ", np.uint8)
        with open(text, "wb") as file:
            for _ in range(40 * ROWS):
                file.write(random.choice(letters, LENGTH - 1).tobytes() + b"\n")
    layer = f"DenseReluDense: {{hidden_size: {chosen * size}, activation: {activation}}}"
    if not dense:
        layer = (
            f"MoE1D: {{gating: top_k, num_experts: {experts}, experts_per_token: {chosen}, hidden_size: {size}, "
            f"activation: {activation}}}"
        )
    path = f"{work}/{model}{'_dense' if dense else ''}.yaml"
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"""
data:
  train: {{type: text, path: {text}}}
  vocabulary: bytes
  sequence_length: {LENGTH}
model:
  type: lm
  num_layers: {LAYERS}
  d_model: {D_MODEL}
  positions: none
  block:
    - SelfAttention: {{num_heads: {HEADS}, key_value_size: {D_MODEL // HEADS}, rotary: true}}
    - {layer}
train: {{batch_size: {ROWS}, steps: 100000000, log_every: 1}}
checkpoint: {{every: 0}}
optimizer: {optimizer}
learning_rate: 0.001
""")
    return path


def torch_model(model, grouped):
    import torch
    import torch.nn.functional as F
    from torch import nn
    from transformers import MixtralConfig, MixtralForCausalLM

    experts, chosen, size, activation = SIZES[model]

    class GroupedExperts(nn.Module):
        """Rows are sorted by expert; those of an expert are multiplied by its matrices."""

        def __init__(self):
            super().__init__()
            self.gate = nn.Linear(D_MODEL, experts, bias=False)
            width = size if activation == "relu" else 2 * size
            self.wi = nn.Parameter(torch.randn(experts, D_MODEL, width) * D_MODEL**-0.5)
            self.wo = nn.Parameter(torch.randn(experts, size, D_MODEL) * size**-0.5)

        def forward(self, x):
            rows = x.flatten(0, -2)
            logits = self.gate(rows)
            weights, choices = F.softmax(logits, -1).topk(chosen, -1)
            weights = weights / weights.sum(-1, keepdim=True)
            order = choices.flatten().argsort(stable=True)
            counts = torch.bincount(choices.flatten(), minlength=experts).tolist()
            tokens = order // chosen
            made = []
            for mine, wi, wo in zip(rows[tokens].split(counts), self.wi.unbind(), self.wo.unbind(), strict=True):
                hidden = mine @ wi
                if activation == "relu":
                    hidden = F.relu(hidden)
                else:
                    gate, linear = hidden.chunk(2, -1)
                    hidden = F.silu(gate) * linear
                made.append(hidden @ wo)
            y = torch.cat(made) * weights.flatten()[order].unsqueeze(-1)
            y = torch.zeros_like(rows).index_add(0, tokens, y).view_as(x)
            return (y, logits) if is_old else y

    config = MixtralConfig(
        vocab_size=VOCABULARY, hidden_size=D_MODEL, intermediate_size=size, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, num_key_value_heads=HEADS, num_experts_per_tok=chosen, num_local_experts=experts,
        max_position_embeddings=LENGTH, tie_word_embeddings=True, sliding_window=None, use_cache=False,
    )  # fmt: skip
    network = MixtralForCausalLM(config)
    is_old = hasattr(network.model.layers[0], "block_sparse_moe")  # transformers before version 5
    if grouped:
        for layer in network.model.layers:
            setattr(layer, "block_sparse_moe" if is_old else "mlp", GroupedExperts())
    return network


def train_by_torch(model, grouped, optimizer, threads, work):
    """Trains until it is killed; writes a line for each step, and first one with the number of weights."""
    import torch
    import torch.nn.functional as F

    torch.manual_seed(1)
    torch.set_num_threads(threads)
    with open(f"{work}/text.txt", "rb") as file:
        lines = file.read().splitlines()[:ROWS]
    ids = torch.tensor([[*line, 1] for line in lines])
    before = F.pad(ids[:, :-1], (1, 0))
    network = torch_model(model, grouped)
    make = torch.optim.SGD if optimizer == "sgd" else torch.optim.Adam
    update = make(network.parameters(), lr=1e-3, fused=True)
    print(json.dumps({"weights": sum(p.numel() for p in network.parameters())}), flush=True)
    step = 0
    while True:
        update.zero_grad(set_to_none=True)
        logits = network(input_ids=before).logits
        loss = F.cross_entropy(logits.flatten(0, 1), ids.flatten())
        loss.backward()
        update.step()
        step += 1
        print(json.dumps({"step": step, "time": time.monotonic(), "loss": loss.item()}), flush=True)


def start_ours(model, options, work, dense=False):
    name = "mtf-train, dense" if dense else "mtf-train"
    configuration = write_configuration(model, dense, options.optimizer, work)
    return start_mtf_train(name, options, configuration, configuration.removesuffix(".yaml"))


def start_torch(model, program, options, work):
    log = f"{work}/{model}_{program}.log"
    command = [
        sys.executable, os.path.abspath(__file__), "--train-by-torch", model, program, options.optimizer,
        str(options.threads), work,
    ]  # fmt: skip
    return Program(f"PyTorch {program}", command, log, log, passive_threads(options.threads))


def compare(model, options, work):
    """The figures of mtf-train, mtf-train with dense layers, and PyTorch."""
    # transformers has no experts with relu
    programs = ["grouped"] if model == "switch" else ["transformers", "grouped"]
    starts = [lambda: start_ours(model, options, work), lambda: start_ours(model, options, work, dense=True)]
    for program in programs:
        starts.append(lambda program=program: start_torch(model, program, options, work))
    return take_turns(model, starts, options, unequal=["mtf-train, dense"])


def ratios(figures):
    """Ratios of the faster program of PyTorch to mtf-train, and of mtf-train to the same with dense layers."""
    ours, dense, *others = figures
    best = min(others, key=lambda other: other["cpu_ms"])
    return {
        name: {"PyTorch / mtf-train": best[name] / ours[name], "experts / dense": ours[name] / dense[name]}
        for name in ("wall_ms", "cpu_ms")
    }


def read_options():
    parser = options_of_turns(__doc__)
    parser.add_argument("--models", default="switch,mixtral", help="names separated by commas")
    parser.add_argument("--optimizer", choices=["sgd", "adam"], default="sgd")
    options = parser.parse_args()
    options.models = options.models.split(",")
    for model in options.models:
        if model not in SIZES:
            parser.error(f"{model} is not one of {', '.join(SIZES)}")
    return options


def main():
    if sys.argv[1:2] == ["--train-by-torch"]:
        model, program, optimizer, threads, work = sys.argv[2:]
        return train_by_torch(model, program == "grouped", optimizer, int(threads), work)
    options = read_options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the programs that are stopped end too
    results = {}
    print(f"{ROWS} rows of {LENGTH} tokens, {options.optimizer}, threads: {options.threads}, "
          f"{options.rounds} rounds of {options.seconds:g} s", flush=True)  # fmt: skip
    table = Table("model", tokens=ROWS * LENGTH)
    with tempfile.TemporaryDirectory() as work:
        for model in options.models:
            figures = compare(model, options, work)
            ratio = ratios(figures)
            table.add(model, figures)
            for name, wall in ratio["wall_ms"].items():
                table.add_ratio(model, name, wall, ratio["cpu_ms"][name])
            results[model] = {"ratios": ratio, "programs": figures}
    write_figures(options, {"optimizer": options.optimizer}, "models", results)
    against = [result["ratios"]["cpu_ms"]["PyTorch / mtf-train"] for result in results.values()]
    sys.exit(any(ratio < options.at_least for ratio in against))


if __name__ == "__main__":
    main()
