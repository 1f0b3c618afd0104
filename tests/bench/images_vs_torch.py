"""Steps of training of networks of convolutions by mtf-train and by PyTorch (eager), on the CPU, in turns.

    python tests/bench/images_vs_torch.py [build/bin/mtf-train] [--networks cnn,resnet18] [--threads 1] [--rounds 5]
        [--seconds 4] [--at-least 0] [--json FILE]
    python tests/bench/images_vs_torch.py [build/bin/mtf-train] --positions [--threads 1] ...

cnn has two convolutions of 3 x 3 with max pooling and two dense layers, on 28 x 28 x 1 pixels; resnet18 is ResNet-18 on
32 x 32 x 3 pixels, its first convolution 3 x 3 without pooling behind it. Batches have 64 images, the optimizer is Adam
(in PyTorch the fused one). PyTorch runs with both memory formats, contiguous and channels_last, and the one that takes
less CPU time counts. Images and labels are random and written here. mtf-train also reads and shuffles them; PyTorch has
one batch in memory. All have equal numbers of weights, which is checked, and of threads; those of PyTorch sleep while
they wait (OMP_WAIT_POLICY=PASSIVE).

With --positions there is no PyTorch: mtf-train runs with one position, and with 2 x 4 positions in one process, which
split rows and columns of the images. The networks are resnet18 and conv9 (two convolutions of 9 x 9 on 28 x 28 pixels),
because cnn has 7 rows and columns, which cannot be split in two. Ratios are then those of one position to eight.

How turns are timed and figures are computed is in turns.py. The exit status is 1 if the ratio of CPU times of one
of the networks, PyTorch / mtf-train, is less than --at-least. --json writes all figures to FILE. Needs torch and numpy.
"""

import json
import os
import signal
import sys
import tempfile
import time

import numpy as np
from turns import Program, Table, options_of_turns, passive_threads, start_mtf_train, take_turns, write_figures

BATCH = 64
EXAMPLES = 10 * BATCH

CNN = """
    - conv2d: {output: {filters_1: 32}, kernel: 3, activation: relu}
    - max_pool: 2
    - conv2d: {output: {filters_2: 64}, kernel: 3, activation: relu}
    - max_pool: 2
    - dense: {output: {hidden: 128}, over: [rows, cols, filters_2], activation: relu}
    - dense: {output: {classes: 10}}
"""

RESNET18 = """
    - conv2d: {output: {filters: 64}, kernel: 3}
    - batch_norm
    - activation: relu
    - block: {use: same, filters: 64}
    - block: {use: same, filters: 64}
    - block: {use: smaller, filters: 128}
    - block: {use: same, filters: 128}
    - block: {use: smaller, filters: 256}
    - block: {use: same, filters: 256}
    - block: {use: smaller, filters: 512}
    - block: {use: same, filters: 512}
    - global_average_pool
    - dense: {output: {classes: 10}}
  layer_defaults:
    conv2d: {bias: false}
  blocks:
    convolutions:
      - conv2d: {output: {filters: $filters}, kernel: 3, stride: $stride, padding: 1}
      - batch_norm
      - activation: relu
      - conv2d: {output: {filters: $filters}, kernel: 3}
      - batch_norm
    same:
      - residual: {layers: [block: {use: convolutions, filters: $filters, stride: 1}]}
      - activation: relu
    smaller:
      - residual:
          layers: [block: {use: convolutions, filters: $filters, stride: 2}]
          shortcut: [conv2d: {output: {filters: $filters}, kernel: 1, stride: 2}, batch_norm: {}]
      - activation: relu
"""

CONV9 = """
    - conv2d: {output: {filters_1: 16}, kernel: 9, activation: relu}
    - conv2d: {output: {filters_2: 16}, kernel: 9, activation: relu}
    - mean: {over: filters_2}
    - dense: {output: {hidden: 128}, over: [rows, cols], activation: relu}
    - dense: {output: {classes: 10}}
"""

NETWORKS = {"cnn": (CNN, (28, 28)), "resnet18": (RESNET18, (32, 32, 3)), "conv9": (CONV9, (28, 28))}


def write_configuration(network, work):
    """The data and the YAML of mtf-train, which has no last step; returns its path."""
    layers, shape = NETWORKS[network]
    random = np.random.default_rng(1)
    np.save(f"{work}/{network}_images.npy", random.integers(0, 256, (EXAMPLES, *shape), np.uint8))
    np.save(f"{work}/{network}_labels.npy", random.integers(0, 10, EXAMPLES, np.int64))
    path = f"{work}/{network}.yaml"
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"""
data: {{train: {{type: npy, arrays: {{image: {work}/{network}_images.npy, labels: {work}/{network}_labels.npy}}}}}}
model:
  type: classifier
  layers:{layers}
train: {{batch_size: {BATCH}, steps: 100000000, log_every: 1}}
checkpoint: {{every: 0}}
optimizer: adam
learning_rate: 0.001
""")
    return path


def torch_network(network):
    import torch.nn.functional as F
    from torch import nn

    class Residual(nn.Module):
        def __init__(self, inputs, outputs, stride):
            super().__init__()
            self.layers = nn.Sequential(
                nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(),
                nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs),
            )  # fmt: skip
            self.shortcut = nn.Identity()
            if stride != 1 or inputs != outputs:
                self.shortcut = nn.Sequential(
                    nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
                )

        def forward(self, x):
            return F.relu(self.layers(x) + self.shortcut(x))

    if network == "cnn":
        return nn.Sequential(
            nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(7 * 7 * 64, 128), nn.ReLU(), nn.Linear(128, 10),
        )  # fmt: skip
    layers, inputs = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()], 64
    for outputs, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [Residual(inputs, outputs, stride), Residual(outputs, outputs, 1)]
        inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


def train_by_torch(network, memory_format, threads, work):
    """Trains until it is killed; writes a line for each step, and first one with the number of weights."""
    import torch
    import torch.nn.functional as F

    torch.manual_seed(1)
    torch.set_num_threads(threads)
    memory_format = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}[memory_format]
    images = torch.from_numpy(np.load(f"{work}/{network}_images.npy")[:BATCH]).float() / 255
    images = images.unsqueeze(1) if images.dim() == 3 else images.permute(0, 3, 1, 2)
    images = images.contiguous(memory_format=memory_format)
    labels = torch.from_numpy(np.load(f"{work}/{network}_labels.npy")[:BATCH])
    model = torch_network(network).to(memory_format=memory_format)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    print(json.dumps({"weights": sum(p.numel() for p in model.parameters())}), flush=True)
    step = 0
    while True:
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        step += 1
        print(json.dumps({"step": step, "time": time.monotonic(), "loss": loss.item()}), flush=True)


def start_ours(network, options, work, name="mtf-train", arguments=()):
    return start_mtf_train(name, options, write_configuration(network, work), f"{work}/{network}_{name.replace(' ', '_')}", arguments)


def start_torch(network, memory_format, options, work):
    log = f"{work}/{network}_{memory_format}.log"
    command = [
        sys.executable, os.path.abspath(__file__), "--train-by-torch", network, memory_format, str(options.threads), work,
    ]  # fmt: skip
    return Program(f"PyTorch {memory_format}", command, log, log, passive_threads(options.threads))


def compare(network, options, work):
    """The programs' figures, those of mtf-train (with one position) first."""
    starts = [lambda: start_ours(network, options, work)]
    if options.positions:
        split = ("mesh=b1:2;b2:4", "layout=rows:b1;cols:b2")
        starts.append(lambda: start_ours(network, options, work, "2 x 4 positions", split))
    else:
        for memory_format in ("contiguous", "channels_last"):
            starts.append(lambda memory_format=memory_format: start_torch(network, memory_format, options, work))
    return take_turns(network, starts, options)


def ratios(figures, positions):
    """Wall and CPU time of PyTorch's better format over ours; of one position over eight."""
    ours, others = figures[0], figures[1:]
    if positions:
        return {name: ours[name] / others[0][name] for name in ("wall_ms", "cpu_ms")}
    best = min(others, key=lambda other: other["cpu_ms"])
    return {name: best[name] / ours[name] for name in ("wall_ms", "cpu_ms")}


def read_options():
    parser = options_of_turns(__doc__)
    parser.add_argument("--networks", help="names separated by commas; default: cnn,resnet18, or resnet18,conv9")
    parser.add_argument("--positions", action="store_true", help="compare 2 x 4 positions with one")
    options = parser.parse_args()
    all_of_them = ("resnet18", "conv9") if options.positions else ("cnn", "resnet18")
    options.networks = options.networks.split(",") if options.networks else all_of_them
    for network in options.networks:
        if network not in all_of_them:
            parser.error(f"{network} is not one of {', '.join(all_of_them)}")
    return options


def main():
    if sys.argv[1:2] == ["--train-by-torch"]:
        network, memory_format, threads, work = sys.argv[2:]
        return train_by_torch(network, memory_format, int(threads), work)
    options = read_options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the programs that are stopped end too
    results = {}
    print(f"batches of {BATCH}, threads: {options.threads}, {options.rounds} rounds of {options.seconds:g} s", flush=True)
    table = Table("network")
    ratio_name = "one position / 2 x 4" if options.positions else "PyTorch / mtf-train"
    with tempfile.TemporaryDirectory() as work:
        for network in options.networks:
            figures = compare(network, options, work)
            ratio = ratios(figures, options.positions)
            table.add(network, figures)
            table.add_ratio(network, ratio_name, ratio["wall_ms"], ratio["cpu_ms"])
            results[network] = {"ratios": ratio, "programs": figures}
    write_figures(options, {"batch": BATCH}, "networks", results)
    sys.exit(any(result["ratios"]["cpu_ms"] < options.at_least for result in results.values()))


if __name__ == "__main__":
    main()
