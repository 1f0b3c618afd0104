"""Trains a model of torch_models.py until it is killed, on one batch; a line of JSON with the number of weights, then one for
each step.

    python torch_training.py MODEL THREADS OPTIMIZER VARIANT
"""

import json
import sys

import torch
import torch_models


def make_optimizer(name, parameters):
    if name == "adafactor":
        return torch.optim.Adafactor(parameters, lr=1e-3)
    return {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}[name](parameters, lr=1e-3, fused=True)


def main():
    name, threads, optimizer, variant = sys.argv[1:]
    torch.manual_seed(1)
    torch.set_num_threads(int(threads))
    model, inputs, targets = torch_models.make(name, variant)
    update = make_optimizer(optimizer, model.parameters())
    print(json.dumps({"weights": sum(p.numel() for p in model.parameters())}), flush=True)
    step = 0
    while True:
        update.zero_grad(set_to_none=True)
        loss = model(inputs, targets)
        loss.backward()
        update.step()
        step += 1
        print(json.dumps({"step": step, "loss": loss.item()}), flush=True)


main()
