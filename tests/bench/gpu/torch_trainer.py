"""Trains one of torch_models.py and prints what training.py wants to know as one JSON object.

    python torch_trainer.py SPECIFICATION

SPECIFICATION is a JSON file that training.py writes. Losses and norms of gradients are those of the first steps, which
are not timed.
"""

import contextlib
import json
import sys
import time

import torch

import safetensors_file
from torch_models import MODELS


class Trainer:
    def __init__(self, options):
        self.options = options
        self.device = torch.device(options["device"])
        dtype = getattr(torch, options["precision"])
        weights = safetensors_file.read(options["weights"])
        weights = {name.removeprefix("final_weight/"): tensor for name, tensor in weights.items()}
        model = MODELS[options["model"]](weights, options["layers"], options["heads"], dtype).to(self.device)
        self.parameters = list(model.parameters())
        self.model = torch.compile(model) if options["compiled"] else model
        fused = self.device.type == "cuda"
        self.optimizer = torch.optim.Adam(self.parameters, lr=options["learning_rate"], fused=fused)
        on = dtype == torch.bfloat16
        self.precision = (lambda: torch.autocast(self.device.type, dtype)) if on else contextlib.nullcontext
        ids = safetensors_file.read(options["ids"])
        self.batches = [tensor.long() for _, tensor in sorted(ids.items())]  # inputs before targets
        if fused:
            self.batches = [tensor.pin_memory() for tensor in self.batches]

    def step(self, number, observed):
        """Loss and norm of the gradients where they are `observed`, else None."""
        size = self.options["batch"]
        rows = slice(number * size, (number + 1) * size)
        batch = [tensor[rows].to(self.device, non_blocking=True) for tensor in self.batches]
        with self.precision():
            loss = self.model(*batch)
        loss.backward()
        result = None
        if observed:
            norms = torch.stack([p.grad.float().norm() for p in self.parameters])
            result = float(loss.detach()), float(norms.norm())
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return result

    def wait(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def peak_bytes(self):
        return torch.cuda.max_memory_allocated() if self.device.type == "cuda" else None


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        options = json.load(file)
    trainer = Trainer(options)
    first, steps = options["untimed"], options["steps"]
    observed = [trainer.step(number, True) for number in range(first)]
    trainer.wait()
    begin = time.perf_counter()
    for number in range(first, steps):
        trainer.step(number, False)
    trainer.wait()
    seconds = time.perf_counter() - begin
    losses, norms = zip(*observed)
    result = {"seconds": seconds, "losses": losses, "gradient_norms": norms, "peak_bytes": trainer.peak_bytes()}
    print(json.dumps(result))


main()
