"""Causal attention in bfloat16 on one GPU, by mtf-train's operation and by cuDNN (through PyTorch), for heads of 64 and 128
and lengths from 1k to 32k: times, their ratio, and the memory of ours.

    python tests/bench/attention_vs_cudnn.py build/bin/gpu_attention_bench [--most 32768]

16,384 tokens and a width of 2,048 in each call. Needs torch.
"""

import argparse
import json
import statistics
import subprocess

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

TOKENS, WIDTH = 16384, 2048


def seconds(call, rounds=7, runs=10):
    """The median of rounds, each of several calls."""
    times = []
    for round_ in range(rounds + 1):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(runs):
            call()
        end.record()
        torch.cuda.synchronize()
        if round_ > 0:
            times.append(begin.elapsed_time(end) / 1000 / runs)
    return statistics.median(times)


def cudnn(batch, heads, length, d_kv):
    q, k, v = (torch.rand(batch, heads, length, d_kv, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
    dy = torch.rand_like(q)
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):

        def both():
            torch.autograd.grad(F.scaled_dot_product_attention(q, k, v, is_causal=True), (q, k, v), dy)

        with torch.no_grad():
            forward = seconds(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True))
        return forward, seconds(both)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bench")
    parser.add_argument("--most", type=int, default=32768)
    options = parser.parse_args()
    print(f"{torch.cuda.get_device_name()}, cuDNN {torch.backends.cudnn.version()}")
    print("d_kv length   forward: ours, cuDNN (ms), ratio   with gradient: ours, cuDNN (ms), ratio   memory of ours")
    for d_kv in (64, 128):
        length = 1024
        while length <= options.most:
            batch, heads = max(1, TOKENS // length), WIDTH // d_kv
            sizes = [str(n) for n in (batch, heads, length, d_kv)]
            ours = json.loads(subprocess.run([options.bench, *sizes], check=True, capture_output=True, text=True).stdout)
            forward, both = cudnn(batch, heads, length, d_kv)
            print(
                f"{d_kv:4} {length:6}   {ours['forward'] * 1e3:8.3f} {forward * 1e3:8.3f} {forward / ours['forward']:6.2f}x"
                f"   {ours['both'] * 1e3:8.3f} {both * 1e3:8.3f} {both / ours['both']:6.2f}x   {ours['bytes'] / 2**20:8.1f} MiB",
                flush=True,
            )
            length *= 2


if __name__ == "__main__":
    main()
