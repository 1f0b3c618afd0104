#!/usr/bin/env bash
# mtf-train against PyTorch eager on mnist.yaml: equal weights, equal batches, Adafactor by the same formula, one thread, CPU
# time. Prints examples per second of both, their ratio, and the losses after 100 steps.
#   tests/bench/mnist_vs_torch.sh [build/bin/mtf-train] [STEPS]
# Needs python3-venv and Fashion-MNIST. PyTorch comes from PyPI into ~/.cache/mtf-train/torch; it is not part of the build.
set -euo pipefail
cd "$(dirname "$0")/../.."

mtf_train=${1:-build/bin/mtf-train}
steps=${2:-100}
venv=${MTF_TORCH_VENV:-$HOME/.cache/mtf-train/torch}

if ! "$venv/bin/python" -c 'import torch, numpy' 2> /dev/null; then
  echo "installing PyTorch into $venv"
  python3 -m venv "$venv"
  "$venv/bin/pip" install -q numpy torch
fi
"$venv/bin/python" tests/bench/mnist_vs_torch.py "$mtf_train" "$steps"
