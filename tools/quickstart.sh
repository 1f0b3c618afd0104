#!/usr/bin/env bash
# Builds mtf-train, trains a small network on Fashion-MNIST with visible progress, and suggests what to try
# next. The run is written to runs/quickstart (or runs/quickstart-2, ... if that exists).
set -euo pipefail
cd "$(dirname "$0")/.."

tools/build.sh

run=runs/quickstart
for ((i = 2; ; i++)); do
  [ -e "$run" ] || break
  run=runs/quickstart-$i
done

echo
echo "\$ build/bin/mtf-train configs/runs/quickstart.yaml run.model_dir=$run"
build/bin/mtf-train configs/runs/quickstart.yaml run.model_dir="$run"

cat << END

Test accuracy: $(sed -n '$s/.*"accuracy":\([0-9.]*\).*/\1/p' "$run/evaluate.jsonl").  In $run:
  config.yaml     the whole configuration, with all defaults
  metrics.jsonl   loss, learning rate, speed of logged steps
  evaluate.jsonl  loss and accuracy on the test images
  checkpoints/    weights and optimizer (safetensors); the same command again, with more train.epochs, goes on from there
  events.out.*    the curves, for TensorBoard

Try next:
  # the same run on 8 (emulated) processors that share out the batch: the losses stay the same
  build/bin/mtf-train configs/runs/quickstart.yaml configs/layouts/data_parallel.yaml run.model_dir=runs/data_parallel
  # what each processor would hold, compute and send, without running it
  build/bin/mtf-train configs/runs/quickstart.yaml configs/layouts/data_and_model_parallel.yaml run.mode=explain
  # change anything from the command line
  build/bin/mtf-train configs/runs/quickstart.yaml vars.hidden=2048 train.epochs=2 run.model_dir=runs/wide
  # all keys; all layers
  build/bin/mtf-train --help-config
  build/bin/mtf-train --list-layers
END
