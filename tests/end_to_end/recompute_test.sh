#!/usr/bin/env bash
# Tests train.recompute: auto: what it chooses follows run.memory_limit, is the same in all processes, in explain and in
# config.yaml, stays when the run continues, and changes the losses by no more than rounding.
source "$2/tests/end_to_end/common.sh"
source "$2/tests/end_to_end/processes.sh"

made_up_pairs 5 200 words
cat > lm.yaml << 'YAML'
data: {train: {type: text, path: words.en}, vocabulary: bytes, sequence_length: 64}
model:
  type: lm
  d_model: 64
  max_length: 64
  dropout: 0.1
  num_layers: 4
  block: [SelfAttention, DenseReluDense]
  layer_defaults:
    SelfAttention: {num_heads: 4, key_value_size: 16, dropout: 0.1}
    DenseReluDense: {hidden_size: 512}
optimizer: {type: momentum}
learning_rate: 0.01
run: {threads: 1}
train: {batch_size: 64, log_every: 1, steps: 4, recompute: auto}
checkpoint: {every: 2}
YAML

# explained KEY ARGUMENT...: explains the run into explained.json and prints a value of it.
explained() {
  local key=$1
  shift
  "$mtf_train" lm.yaml "$@" run.mode=explain explain.format=json > explained.json || fail "cannot explain $*"
  python3 -c "import json; print(json.load(open('explained.json'))$key)"
}
need() { explained "['memory']['process']['bytes']" "$@"; }
# chosen RUN: the line of its config.yaml.
chosen() { sed -n 's/^  recompute: //p' "$1/config.yaml"; }

# between ARGUMENT...: a limit of memory between what the run needs without recomputation and with that of blocks.
between() {
  local none block
  none=$(need train.recompute=none "$@")
  block=$(need train.recompute=block "$@")
  [ "$block" -lt "$none" ] || fail "blocks save nothing: $block of $none"
  echo $(((none + block) / 2))
}

meshes=("" "mesh=rows:2;cols:2 layout=batch:rows;heads:cols;d_ff:cols" "mesh=x:2 layout=batch:x")
for i in "${!meshes[@]}"; do
  read -ra mesh <<< "${meshes[i]}"
  limit=$(between "${mesh[@]}")
  choice=$(explained "['recompute']['recompute']" "${mesh[@]}" run.memory_limit="$limit")
  [ "$choice" != none ] || fail "nothing is recomputed on $limit bytes"
  expect_exit 0 "$mtf_train" lm.yaml "${mesh[@]}" run.model_dir="auto$i" run.memory_limit="$limit"
  expect_text "train.recompute: auto is $choice: "
  expect_text "(run.memory_limit); none takes "
  [ "$(chosen "auto$i")" = "$choice" ] || fail "config.yaml has $(chosen "auto$i"), and explain chose $choice"
  expect_exit 0 "$mtf_train" lm.yaml "${mesh[@]}" run.model_dir="none$i" train.recompute=none
  losses "auto$i" > a
  losses "none$i" > b
  expect_close a b 1e-5
done

# Explain shows what it chose, the alternatives, and YAML to paste.
limit=$(between)
expect_exit 0 "$mtf_train" lm.yaml run.mode=explain run.memory_limit="$limit"
expect_text "train.recompute: auto, with the predicted time of a step and the memory of the run"
expect_text "  none "
expect_text "chosen"
sed -n 's/^train: {recompute:/train: {recompute:/p' out > pasted.yaml
[ -s pasted.yaml ] || fail "there is nothing to paste"
expect_exit 0 "$mtf_train" lm.yaml pasted.yaml run.model_dir=pasted run.memory_limit="$limit"
expect_exit 0 "$mtf_compare" --tensors auto0 pasted

# A run that continues keeps its choice, also with more memory; config.yaml of the run has it.
expect_exit 0 "$mtf_train" lm.yaml run.model_dir=auto0 train.steps=5
expect_text "train.recompute: auto is $(chosen auto0): as in the run so far"
expect_exit 0 "$mtf_train" auto0/config.yaml train.steps=6
! grep -q "train.recompute" out || fail "config.yaml still decides"
expect_exit 0 "$mtf_train" lm.yaml run.model_dir=none0 train.steps=5 run.memory_limit="$limit"
expect_text "none takes "

# Processes choose alike: what the one with the least memory needs.
read -ra mesh <<< "${meshes[2]}"
processes=(cluster.launcher=none cluster.processes=2 cluster.process=0 cluster.address=localhost:1)
limit=$(between "${mesh[@]}" "${processes[@]}")
cat > limited.sh << END
#!/bin/sh
[ "\$RANK" = 1 ] && exec "$mtf_train" "\$@" run.memory_limit=$limit
exec "$mtf_train" "\$@" run.memory_limit=8GB
END
chmod +x limited.sh
expect_exit 0 timeout 120 "$mtf_launch" -n 2 -- ./limited.sh lm.yaml run.model_dir=two "${mesh[@]}"
expect_text "train.recompute: auto is $(chosen two): "
[ "$(chosen two)" != none ] || fail "the process with little memory was not asked"
losses two > a
losses none2 > b
expect_close a b 1e-5

# The stages of a pipeline need unlike memory: what is chosen fits into the largest one, here the last.
stages=(mesh=x:2 layout=layers:x train.microbatches=4 pipeline.schedule=gpipe
  model.shared_embedding_and_softmax=false "data.vocabulary={type: bytes, extra_ids: 5000}")
limit=$(between "${stages[@]}" "${processes[@]}")
expect_exit 0 timeout 120 "$mtf_launch" -n 2 -- "$mtf_train" lm.yaml run.model_dir=stages "${stages[@]}" run.memory_limit="$limit"
expect_text "train.recompute: auto is $(chosen stages): "
[ "$(chosen stages)" != none ] || fail "the process of the last stage was not asked"

# With microbatches: auto the faster of both is taken, and nothing is where nothing fits.
expect_exit 0 "$mtf_train" lm.yaml train.microbatches=auto run.model_dir=both run.memory_limit="$(between)"
expect_text ", train.microbatches: auto is "
losses both > a
losses none0 | head -n 4 > b
expect_close a b 1e-5

# With layout: auto all is found together, stands in config.yaml, and stays when the run goes on.
found=(mesh=x:2 layout=auto train.microbatches=auto run.model_dir=found)
expect_exit 0 "$mtf_train" lm.yaml "${found[@]}" run.memory_limit="$(between)"
expect_text "layout auto: mesh: {x: 2}, "
choice=$(chosen found) number=$(sed -n 's/^  microbatches: //p' found/config.yaml)
expect_text "train.recompute: auto is $choice, train.microbatches: auto is $number: as found with the layout"
[ "$choice $number" != "none 1" ] || fail "everything fits"
losses found > a
losses none0 | head -n 4 > b
expect_close a b 1e-5
expect_exit 0 "$mtf_train" lm.yaml "${found[@]}" train.steps=5
expect_text "layout auto: as the run has it, mesh: {x: 2}, "
expect_text "train.recompute: auto is $choice, train.microbatches: auto is $number: as in the run so far"

expect_exit 2 "$mtf_train" lm.yaml run.memory_limit=1MB run.model_dir=nothing
expect_text "the run needs "
expect_exit 2 "$mtf_train" lm.yaml train.strategy=parameter_server run.model_dir=nothing
expect_text "\`train.recompute: auto\` does not go with \`train.strategy: parameter_server\`"
echo "ok"
