#!/usr/bin/env bash
# Tries installed programs: try.sh PREFIX FASHION_MNIST, where FASHION_MNIST is the directory of its four files. Trains for
# 300 steps in one process and in two, compares both runs, and computes BLEU. tools/release.sh runs it in fresh systems.
set -euo pipefail
[ $# -eq 2 ] || { echo "try: PREFIX and FASHION_MNIST have to be given; see the top of $0" >&2; exit 2; }
prefix=$(realpath "$1")
bin=$prefix/bin
model=$prefix/share/mtf-train/configs/models/mnist.yaml
data=$(realpath "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

for program in mtf-train mtf-launch mtf-compare mtf-vocab mtf-bleu mtf-convert; do
  "$bin/$program" --help > help
  head -n 1 help
done
set -x
"$bin/mtf-train" --version

run=("$model" train.steps=300 train.log_every=100
  data.train.images="$data/train-images-idx3-ubyte.gz" data.train.labels="$data/train-labels-idx1-ubyte.gz"
  evaluate.datasets.test.images="$data/t10k-images-idx3-ubyte.gz"
  evaluate.datasets.test.labels="$data/t10k-labels-idx1-ubyte.gz")
"$bin/mtf-train" "${run[@]}" run.model_dir=one
# mtf-launch has to find mtf-train by itself.
"$bin/mtf-launch" -n 2 -- mtf-train "${run[@]}" mesh=all:2 layout=batch:all run.model_dir=two > log
"$bin/mtf-compare" one two --metrics --tolerance 0.1

# The files of configs/hardware are found by their names.
"$bin/mtf-train" "$prefix/share/mtf-train/configs/models/toy.yaml" run.mode=explain hardware=h100_8x_nvlink_400g > explained

# A mistake has the exit code of the program.
code=0
"$bin/mtf-train" "$model" train.stepz=1 || code=$?
[ "$code" -eq 2 ]

printf 'The cat sat on the mat.\nIt rained all day long.\n' > reference
printf 'The cat sat on a mat.\nIt rained all day long.\n' > hypothesis
"$bin/mtf-bleu" reference -i hypothesis
