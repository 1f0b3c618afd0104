#!/usr/bin/env bash
# Tests what docs/images.md says about the scaling of AlexNet and ResNet-50: the commands there print the tables there,
# and splitting the batch of convolutions and the neurons of dense layers over the same positions changes no result.
source "$2/tests/end_to_end/common.sh"
page=$source_dir/docs/images.md

export PYTHONDONTWRITEBYTECODE=1
speedups=("$source_dir/tests/bench/bench.py" speedups --mtf-train "$mtf_train")

commands=0
while read -r _ _ arguments; do
  commands=$((commands + 1))
  read -ra words <<< "$arguments"
  python3 "${speedups[@]}" "${words[@]}" | grep '^|' > table
  while IFS= read -r line; do
    grep -qxF -- "$line" "$page" || fail "docs/images.md lacks a line that 'tests/bench/bench.py speedups $arguments' prints:
$line"
  done < table
done < <(grep '^tests/bench/bench.py speedups' "$page")
[ "$commands" -ge 2 ] || fail "docs/images.md has $commands commands"

python3 "${speedups[@]}" --positions 8 --json table.json > table
python3 - << 'END' || fail "the schemes do not differ as they should"
import json
alexnet = {row["scheme"]: row for row in json.load(open("table.json"))["figures"]["networks"] if row["network"] == "AlexNet"}
data, model, mixed = (alexnet[scheme] for scheme in ("data", "model", "mixed"))
# The dense layers' 58.6 million gradients stay where they are; activations travel instead.
assert mixed["bytes_sent"] < data["bytes_sent"] / 3, (mixed, data)
assert mixed["flops"] == data["flops"] < model["flops"] / 7, (mixed, data, model)
assert mixed["speed_up"] > mixed["published"] > model["speed_up"], (mixed, model)
assert mixed["speed_up_without_overlap"] > data["speed_up_without_overlap"], (mixed, data)
END

# The same structure as in alexnet.yaml, small: losses are those of one position, on every scheme.
make_idx train 64
cat > network.yaml << 'END'
vars: {dense_batch: batch}
data: {train: {type: idx, images: train-images, labels: train-labels}}
model:
  type: classifier
  layers:
    - conv2d: {name: conv, output: {filters: 4}, kernel: 3, stride: 4, activation: relu}
    - max_pool: 2
    - rename: {from: batch, to: $dense_batch}
    - dense: {name: fc6, over: [rows, cols, filters], output: {fc6: 16}, activation: relu}
    - dropout: 0.5
    - rename: {from: fc6, to: whole_fc6}
    - dense: {name: fc7, output: {fc7: 8}, activation: relu}
    - dense: {name: fc8, output: {classes: 10}}
    - rename: {from: $dense_batch, to: batch}
optimizer: {type: momentum, momentum: 0.9}
learning_rate: 0.05
run: {check_replicas: true}
train: {steps: 6, batch_size: 16, log_every: 1}
END
expect_exit 0 "$mtf_train" network.yaml run.model_dir=single
losses single > single.losses
while read -r name arguments; do
  read -ra words <<< "$arguments"
  expect_exit 0 "$mtf_train" network.yaml mesh=all:4 "run.model_dir=$name" "${words[@]}"
  losses "$name" > "$name.losses"
  expect_close "$name.losses" single.losses 1e-5
done << 'END'
data layout=batch:all
model layout=fc6:all;fc7:all
mixed layout=batch:all;fc6:all;fc7:all vars.dense_batch=whole_batch
microbatches layout=batch:all;fc6:all;fc7:all vars.dense_batch=whole_batch train.microbatches=2
END
# Without another name for the batch the two rules meet in one tensor.
expect_exit 2 "$mtf_train" network.yaml mesh=all:4 "layout=batch:all;fc6:all" run.model_dir=none
expect_text "layout splits \`batch\` and \`fc6\`, both of one tensor, over mesh dimension \`all\`"
echo "ok"
