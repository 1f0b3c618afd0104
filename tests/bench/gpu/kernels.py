"""Times of single operations: ours by gpu_operations_bench, PyTorch's by the card's clock."""

import json
import statistics
import time

import machine


def ours(options, *arguments):
    """What gpu_operations_bench says of an operation with its sizes."""
    environment = machine.environment(options.bench, options.emulator)
    return json.loads(machine.run([options.bench, *map(str, arguments)], env=environment))


def torch_device(options):
    return "cpu" if options.emulator else "cuda"


def torch_seconds(call, device, rounds=7, runs=10):
    """The median of rounds, each of several calls."""
    import torch

    times = []
    for number in range(rounds + 1):
        if device == "cuda":
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            for _ in range(runs):
                call()
            end.record()
            torch.cuda.synchronize()
            taken = begin.elapsed_time(end) / 1000
        else:
            start = time.perf_counter()
            for _ in range(runs):
                call()
            taken = time.perf_counter() - start
        if number > 0:
            times.append(taken / runs)
    return statistics.median(times)
