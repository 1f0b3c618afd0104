"""mnist.yaml by mtf-train and by PyTorch eager, from equal weights and on equal batches, at one thread."""

import json
import os
import resource
import struct
import subprocess
import sys
import tempfile
import time

for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[variable] = "1"

import gzip

import numpy as np
import torch

DATA = "/usr/share/datasets/fashion-mnist"
BATCH = 200


def read_safetensors(path):
    data = open(path, "rb").read()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + length])
    types = {"F32": np.float32, "I32": np.int32}
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        values = np.frombuffer(data[8 + length + begin : 8 + length + end], types[entry["dtype"]])
        tensors[name] = values.reshape(entry["shape"])
    return tensors


def write_safetensors(path, tensors):
    header, body = {}, b""
    for name, values in tensors.items():
        dtype = {"float32": "F32", "int32": "I32"}[str(values.dtype)]
        header[name] = {"dtype": dtype, "shape": list(values.shape), "data_offsets": [len(body), len(body) + values.nbytes]}
        body += values.tobytes()
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + body)


def read_idx(name, offset):
    return np.frombuffer(gzip.open(f"{DATA}/{name}").read(), np.uint8, offset=offset)


def mtf_train(program, work, *arguments):
    command = [program, "configs/models/mnist.yaml", "run.threads=1", f"run.model_dir={work}/run", *arguments]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime)


def initial_weights(program, work):
    """The weights that mtf-train starts from: a trace of no batch in particular, with a learning rate of zero."""
    images = np.zeros((BATCH, 28, 28), np.float32)
    write_safetensors(f"{work}/in", {"input/image": images, "input/labels": np.zeros(BATCH, np.int32)})
    mtf_train(program, work, "run.mode=trace", f"trace.input={work}/in", f"trace.output={work}/out", "trace.steps=1",
              "optimizer=sgd", "learning_rate=0")
    tensors = read_safetensors(f"{work}/out")
    return {name[len("final_weight/"):]: values for name, values in tensors.items() if name.startswith("final_weight/")}


class Adafactor:
    """Shazeer and Stern 2018 with the defaults of mtf-train: relative steps, clipping at 1, factored from 128 on."""

    def __init__(self, parameters):
        self.parameters = parameters
        self.slots = [None] * len(parameters)
        self.step_number = 0

    @staticmethod
    def factored(shape):
        order = sorted(range(len(shape)), key=lambda d: -shape[d])
        return (order[0], order[1]) if len(shape) > 1 and shape[order[1]] >= 128 else None

    @torch.no_grad()
    def step(self):
        t = self.step_number
        self.step_number += 1
        rate = min((t + 1) ** -0.5, 0.01)
        decay = 1 - (t + 1) ** -0.8
        for i, w in enumerate(self.parameters):
            g = w.grad
            squares = g * g + 1e-30
            dimensions = self.factored(w.shape)
            if dimensions:
                d0, d1 = dimensions
                if self.slots[i] is None:
                    self.slots[i] = (torch.zeros_like(squares.mean(d0)), torch.zeros_like(squares.mean(d1)))
                rows, columns = self.slots[i]
                rows.mul_(decay).add_(squares.mean(d0), alpha=1 - decay)
                columns.mul_(decay).add_(squares.mean(d1), alpha=1 - decay)
                mean = rows.mean(d1 - (d0 < d1), keepdim=True)
                x = g * (rows / mean).rsqrt().unsqueeze(d0) * columns.rsqrt().unsqueeze(d1)
            else:
                if self.slots[i] is None:
                    self.slots[i] = torch.zeros_like(squares)
                self.slots[i].mul_(decay).add_(squares, alpha=1 - decay)
                x = g * self.slots[i].rsqrt()
            clip = max(1.0, float(x.square().mean().sqrt()))
            scale = rate * max(float(w.square().mean().sqrt()), 1e-3) / clip
            w.sub_(x, alpha=scale)


def torch_run(weights, images, labels, steps):
    """Losses of each step and CPU seconds of the loop."""
    names = ["layer_1/kernel", "layer_1/bias", "layer_2/kernel", "layer_2/bias"]
    w1, b1, w2, b2 = [torch.tensor(weights[name].copy(), requires_grad=True) for name in names]
    optimizer = Adafactor([w1, b1, w2, b2])
    losses = []
    for w in optimizer.parameters:
        w.grad = None
    begin = time.process_time()
    for step in range(steps):
        x = torch.from_numpy(images[step]).reshape(BATCH, 784)
        y = torch.from_numpy(labels[step])
        hidden = torch.relu(x @ w1.reshape(784, -1) + b1)
        loss = torch.nn.functional.cross_entropy(hidden @ w2 + b2, y)
        for w in optimizer.parameters:
            w.grad = None
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses, time.process_time() - begin


def main():
    program, steps = sys.argv[1], int(sys.argv[2])
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as work:
        weights = initial_weights(program, work)
        images = read_idx("train-images-idx3-ubyte.gz", 16).reshape(-1, 28, 28)
        labels = read_idx("train-labels-idx1-ubyte.gz", 8)
        rows = np.arange(steps * BATCH) % len(labels)  # data.shuffle=false: the order of the file
        batches = (images[rows].astype(np.float32) / np.float32(255)).reshape(steps, BATCH, 28, 28)
        targets = labels[rows].astype(np.int64).reshape(steps, BATCH)

        common = ["learning_rate=null", "data.shuffle=false", "train.epochs=null", "evaluate.datasets=null", "train.log_every=1"]
        # CPU time of the steps alone: a long run minus a run of one step (start, reading of data).
        start = min(mtf_train(program, f"{work}/start{i}", *common, "train.steps=1") for i in range(3))
        times = [mtf_train(program, f"{work}/long{i}", *common, f"train.steps={steps + 1}") - start for i in range(3)]
        lines = [json.loads(line) for line in open(f"{work}/long0/run/metrics.jsonl")]
        ours = [line["loss"] for line in lines][:steps]

        torch_run(weights, batches[:5], targets[:5], 5)
        runs = [torch_run(weights, batches, targets, steps) for _ in range(3)]
        theirs, torch_seconds = runs[0][0], min(seconds for _, seconds in runs)

    seconds = min(times)
    difference = abs(ours[-1] - theirs[-1]) / theirs[-1]
    print(f"{'':24}{'mtf-train':>14}{'torch ' + torch.__version__:>20}")
    print(f"{'CPU s for ' + str(steps) + ' steps':24}{seconds:14.3f}{torch_seconds:20.3f}")
    print(f"{'examples / CPU s':24}{steps * BATCH / seconds:14.0f}{steps * BATCH / torch_seconds:20.0f}")
    print(f"{'loss of step 1':24}{ours[0]:14.6f}{theirs[0]:20.6f}")
    print(f"{'loss of step ' + str(steps):24}{ours[-1]:14.6f}{theirs[-1]:20.6f}")
    print(f"speed ratio {torch_seconds / seconds:.2f}, relative difference of the last losses {difference:.1e}")
    sys.exit(0 if difference < 1e-4 else 1)


main()
