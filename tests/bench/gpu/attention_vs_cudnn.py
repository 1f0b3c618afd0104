"""Causal attention in bfloat16 on one GPU, by mtf-train's kernels, by mtf-train with `run.attention: cudnn`, and through
PyTorch by cuDNN and by FlashAttention, for heads of 64 and 128 and lengths from 1k to 32k: times, their ratios, TFLOP/s
of mtf-train's kernels, and their memory. With --packed rows have four segments each, which PyTorch's do not know.

    python tests/bench/gpu/attention_vs_cudnn.py build/bin/gpu_operations_bench [--most 32768] [--json FILE]
    python tests/bench/gpu/attention_vs_cudnn.py build/bin/gpu_operations_bench --emulator --tiny    tries it without a GPU

16,384 tokens and a width of 2,048 in each call. Needs torch, or --no-torch. A peer that refuses a size has no time.
"""

import argparse
import importlib.util

import kernels
import machine

SIZES = {"tokens": 16384, "width": 2048, "least": 1024, "most": 32768}
TINY = {"tokens": 64, "width": 128, "least": 32, "most": 32}
LIBRARY = "run.attention: cudnn"
PEERS = {"cuDNN": "CUDNN_ATTENTION", "flash": "FLASH_ATTENTION"}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bench", metavar="build/bin/gpu_operations_bench")
    for name in SIZES:
        parser.add_argument("--" + name, type=int, help=f"default {SIZES[name]}, tiny {TINY[name]}")
    parser.add_argument("--tiny", action="store_true", help="sizes that show whether it works, not how fast it is")
    parser.add_argument("--no-torch", action="store_true")
    parser.add_argument("--packed", action="store_true", help="rows of four segments, without PyTorch")
    machine.add_arguments(parser)
    options = parser.parse_args()
    for name, value in (TINY if options.tiny else SIZES).items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    options.no_torch = options.no_torch or options.packed
    if not options.no_torch and not importlib.util.find_spec("torch"):
        parser.error("this Python has no torch; --no-torch goes without")
    return options


def torch_times(backend, sizes, device):
    """Seconds of the forward pass alone and of both passes; None where PyTorch has no such kernel for the sizes."""
    import torch
    import torch.nn.functional as F
    from torch.nn.attention import SDPBackend, sdpa_kernel

    q, k, v = (torch.rand(*sizes, device=device, dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
    dy = torch.rand_like(q)

    def forward():
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    try:
        with sdpa_kernel(getattr(SDPBackend, backend)):
            with torch.no_grad():
                alone = kernels.torch_seconds(forward, device)
            return {
                "forward": alone,
                "both": kernels.torch_seconds(lambda: torch.autograd.grad(forward(), (q, k, v), dy), device),
            }
    except RuntimeError as error:
        print(f"  {backend}: {str(error).splitlines()[0]}")
        return None


def measure(options, length, d_kv):
    batch, heads = max(1, options.tokens // length), max(1, options.width // d_kv)
    sizes = (batch, heads, length, d_kv)
    operation = "packed" if options.packed else "attention"
    ours = kernels.ours(options, operation, *sizes)
    flops = 2 * batch * heads * length**2 * d_kv  # two products, half of each
    result = {"d_kv": d_kv, "length": length, "mtf-train": ours, "tflops": flops / ours["forward"] / 1e12}
    result[LIBRARY] = kernels.ours(options, f"library_{operation}", *sizes)
    if not options.no_torch:
        device = kernels.torch_device(options)
        result.update((name, torch_times(backend, sizes, device)) for name, backend in PEERS.items())
    return result


def print_line(result):
    ours = result["mtf-train"]
    line = f"{result['d_kv']:4} {result['length']:6}"
    for part in ("forward", "both"):
        line += f"   {part} {ours[part] * 1e3:9.3f} ms"
        for name in (LIBRARY, *PEERS):
            times = result.get(name)
            if times:
                line += f", {name} {times[part] * 1e3:9.3f} ms ({times[part] / ours[part]:.2f}x)"
    print(f"{line}   {result['tflops']:6.1f} TFLOP/s forward, {ours['bytes'] / 2**20:.1f} MiB", flush=True)


def main():
    options = parse()
    results = []
    print("d_kv length   ours, and peers with their time over ours")
    for d_kv in (64, 128):
        length = options.least
        while length <= options.most:
            results.append(measure(options, length, d_kv))
            print_line(results[-1])
            length *= 2
    description = machine.describe(None, options.emulator)
    machine.write_json(options.json, {"benchmark": "attention", "machine": description, "results": results})


if __name__ == "__main__":
    main()
