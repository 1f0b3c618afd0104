"""A training step of GPT-2's smallest shape (12 layers, d_model 768, 12 heads of 64, d_ff 3072, length 1024, vocabulary
50,304, tied embeddings, bfloat16) on one GPU, by mtf-train and by PyTorch with autocast and flash attention, eager and
compiled, in turns: tokens per second, model-FLOPs utilisation, memory.

    python tests/bench/gpu/gpt2_vs_torch.py build/bin/mtf-train [--batch 32] [--steps 60] [--rounds 3] [--json FILE]
    python tests/bench/gpu/gpt2_vs_torch.py build/bin/mtf-train --emulator --tiny        tries it without a GPU

Both sides start from the weights of mtf-train and read the same rows. The losses and norms of gradients of the first
steps are printed and compared; exits with 1 where they differ. Needs torch, or --sides mtf-train.
"""

import training

SIZES = {"batch": 32, "steps": 60, "untimed": 20, "rounds": 3, "layers": 12, "d_model": 768, "heads": 12, "length": 1024,
         "vocabulary": 50304}  # fmt: skip
TINY = {"batch": 2, "steps": 8, "untimed": 6, "rounds": 1, "layers": 2, "d_model": 64, "heads": 2, "length": 32,
        "vocabulary": 256}  # fmt: skip


def main():
    options = training.parse(__doc__, SIZES, TINY)
    options.learning_rate = 1e-3
    width = options.d_model
    config = {
        "data": {"train": {"type": "text", "path": "text.txt"}},
        "model": {
            "type": "lm", "num_layers": options.layers, "d_model": width, "max_length": options.length, "z_loss": 0,
            "block": ["SelfAttention", "DenseReluDense"],
            "layer_defaults": {
                "SelfAttention": {"num_heads": options.heads, "key_value_size": width // options.heads},
                "DenseReluDense": {"hidden_size": 4 * width},
            },
        },
    }  # fmt: skip
    # 6 for each weight of a product, and 6 * length * d_model for each layer of causal attention.
    weights = options.layers * 12 * width**2 + options.vocabulary * width
    flops = 6 * weights + 6 * options.layers * options.length * width
    training.compare("gpt2", options, config, {"text.txt": "targets"}, options.layers, flops)


if __name__ == "__main__":
    main()
