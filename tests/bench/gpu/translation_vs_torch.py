"""A training step of the base encoder and decoder of Vaswani et al. 2017 (6 + 6 layers, d_model 512, 8 heads of 64, d_ff
2048, vocabulary 32,768, pairs of 128 and 128 tokens, bfloat16) on one GPU, by mtf-train and by PyTorch with autocast and
flash attention, eager and compiled, in turns: target tokens per second, model-FLOPs utilisation, memory.

    python tests/bench/gpu/translation_vs_torch.py build/bin/mtf-train [--batch 256] [--rounds 3] [--json FILE]
    python tests/bench/gpu/translation_vs_torch.py build/bin/mtf-train --emulator --tiny        tries it without a GPU

Norms stand before the layers and there is no dropout, on both sides; the rest is as in gpt2_vs_torch.py.
"""

import training

SIZES = {"batch": 256, "steps": 60, "untimed": 20, "rounds": 3, "layers": 6, "d_model": 512, "heads": 8, "length": 128,
         "vocabulary": 32768}  # fmt: skip
TINY = {"batch": 2, "steps": 8, "untimed": 6, "rounds": 1, "layers": 1, "d_model": 64, "heads": 2, "length": 32,
        "vocabulary": 256}  # fmt: skip


def main():
    options = training.parse(__doc__, SIZES, TINY)
    options.learning_rate = 3e-4  # with 1e-3 losses jump, and rounding grows
    width = options.d_model
    heads = {"num_heads": options.heads, "key_value_size": width // options.heads}
    config = {
        "data": {"train": {"type": "parallel", "inputs": "inputs.txt", "targets": "targets.txt"}},
        "model": {
            "type": "bitransformer", "d_model": width, "max_length": options.length, "z_loss": 0,
            "encoder": {"num_layers": options.layers, "block": ["SelfAttention", "DenseReluDense"]},
            "decoder": {"num_layers": options.layers, "block": ["SelfAttention", "EncDecAttention", "DenseReluDense"]},
            "layer_defaults": {
                "SelfAttention": heads, "EncDecAttention": heads, "DenseReluDense": {"hidden_size": 4 * width},
            },
        },
    }  # fmt: skip
    # A pair of tokens meets 12 + 16 matrices of d_model^2, and 2 + 1 + 2 halves of attention over `length` positions.
    weights = options.layers * 28 * width**2 + options.vocabulary * width
    flops = 6 * weights + 6 * options.layers * 5 * options.length * width
    training.compare("translation", options, config, {"inputs.txt": "inputs", "targets.txt": "targets"}, options.layers, flops)


if __name__ == "__main__":
    main()
