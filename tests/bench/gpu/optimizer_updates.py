"""Updates of a float32 weight by Adam and Adafactor on one GPU: GB/s of what they must read and write, as a share of
what an operation reaches that reads and writes each element once; beside them PyTorch's fused Adam.

    python tests/bench/gpu/optimizer_updates.py build/bin/gpu_operations_bench [--json FILE]
    python tests/bench/gpu/optimizer_updates.py build/bin/gpu_operations_bench --emulator --tiny    tries it without a GPU
"""

import argparse
import importlib.util

import kernels
import machine

SHAPES = ((768, 3072), (4096, 4096), (50304, 768), (16384, 8192))
TINY = ((64, 192),)
# Bytes of an element: Adam reads w, g, m, v and writes w, m, v; Adafactor reads w and g, then g, then w and g, and writes w.
BYTES = {"negative": 8, "adam": 28, "adafactor": 24}


def torch_adam(rows, columns, device):
    import torch

    weight = torch.nn.Parameter(torch.rand(rows, columns, device=device))
    weight.grad = torch.rand_like(weight)
    optimizer = torch.optim.Adam([weight], lr=1e-9, fused=device == "cuda")
    return kernels.torch_seconds(optimizer.step, device)


def measure(options, rows, columns):
    seconds = {name: kernels.ours(options, name, rows, columns)["seconds"] for name in BYTES}
    rates = {name: BYTES[name] * rows * columns / taken / 1e9 for name, taken in seconds.items()}
    if importlib.util.find_spec("torch"):
        taken = torch_adam(rows, columns, kernels.torch_device(options))
        rates["torch_adam"] = BYTES["adam"] * rows * columns / taken / 1e9
    return {"rows": rows, "columns": columns, "seconds": seconds, "gigabytes_per_second": rates}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bench", metavar="build/bin/gpu_operations_bench")
    parser.add_argument("--tiny", action="store_true", help="a shape that shows whether it works, not how fast it is")
    machine.add_arguments(parser)
    options = parser.parse_args()
    results = []
    for rows, columns in TINY if options.tiny else SHAPES:
        results.append(measure(options, rows, columns))
        rates = results[-1]["gigabytes_per_second"]
        parts = [f"{name} {rate:8.1f} GB/s ({rate / rates['negative']:4.0%})" for name, rate in rates.items()]
        print(f"{rows:6} x {columns:5}  " + "  ".join(parts), flush=True)
    description = machine.describe(None, options.emulator)
    machine.write_json(options.json, {"benchmark": "optimizer updates", "machine": description, "results": results})


if __name__ == "__main__":
    main()
