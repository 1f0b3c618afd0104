#!/usr/bin/env bash
# mtf-train against Marian (pymarian), eager PyTorch and CTranslate2 on a small translation model: 2 + 2 layers,
# d_model 128, d_ff 512, 4 heads, vocabulary 4,000, float32 on the CPU, English to German from corpora/ende, which
# tools/corpora/build.sh makes.
#   tests/bench/translation_vs_peers.sh train [--threads 2]     9 minutes; 6 with --threads 1
#   tests/bench/translation_vs_peers.sh decode [--threads 2]    about 3 minutes and, once, 4 to train a model
#   ... [--mtf-train build/bin/mtf-train] [--data corpora/ende] [--work DIR] [--rounds 3] [--seconds 30] [--lines 1000]
#
# Training: equal vocabulary (mtf-vocab) and pairs, layer norm after each sum, tied embeddings, dropout 0.1 on
# embeddings and on what sublayers add, label smoothing 0.1, Adam with clipping. Batches have 2,048 target
# tokens on average and are made in each program's own way: rows of 128 packed tokens, or pairs of like
# length. Counted are target tokens without padding, with ends of sequence. The programs take turns of 30 s,
# in which all others are stopped; rates are taken between two lines of progress of one turn, so without
# start-up. Medians over the rounds. With two threads Marian trains synchronously, its batch cut in two, and
# (async) each thread on batches of its own; PyTorch's threads wait as they do by themselves, in a loop, and
# (passive) asleep, which costs time and saves CPU time.
# What differs: mtf-train draws dropout once for all tokens of a row, and its matrix products have no biases.
# Layer norm stands after each sum because that is the form of which Marian's decoder makes what its trainer learned.
#
# Decoding: beam 4, batches of 64 lines by length, from text to text, the weights of ONE model in the formats of all
# three, less the time of a run on one line. mtf-train's length penalty is ((5 + n) / 6)^0.6, that of the others
# n^0.6; texts end at twice the length of their line in mtf-train, of the batch's longest line in the others.
#
# Needs python3-venv and 7 GB: pymarian, PyTorch and CTranslate2 come from PyPI into MTF_PEERS_VENV, by default
# ~/.cache/mtf-train/peers; they are not part of the build. On a machine with other work look at CPU seconds only.
set -euo pipefail
cd "$(dirname "$0")/../.."

venv=${MTF_PEERS_VENV:-$HOME/.cache/mtf-train/peers}
if ! "$venv/bin/python" -c 'import ctranslate2, numpy, pymarian, safetensors, sentencepiece, torch, yaml' 2> /dev/null; then
  echo "installing pymarian, PyTorch and CTranslate2 into $venv"
  python3 -m venv "$venv"
  "$venv/bin/pip" install -q numpy pymarian torch ctranslate2 sentencepiece safetensors pyyaml
fi
exec "$venv/bin/python" tests/bench/translation_vs_peers/compare.py "$@"
