#!/usr/bin/env bash
# Trains language models with experts under changing arrangements: each run goes on from step to step on another mesh, with
# other microbatches, recomputation, processes or devices, and has the losses, reports and texts of one position.
source "$2/tests/end_to_end/common.sh"
source "$2/tests/end_to_end/processes.sh"

made_up_pairs 7 400 pairs
model() {  # OPTIONS OF MoE1D : prints a configuration
  cat << YAML
data:
  train: {type: parallel, inputs: pairs.en, targets: pairs.de}
  vocabulary: bytes
  sequence_length: 64
  cache: cache
model:
  type: lm
  d_model: 16
  num_layers: 2
  max_length: 64
  dropout: 0.1
  block: [SelfAttention, MoE1D]
  layer_defaults:
    SelfAttention: {num_heads: 2, key_value_size: 8}
    MoE1D: {num_experts: 8, hidden_size: 32, group_size: 32, $1}
optimizer: {type: adam, clip_norm: 1}
learning_rate: 0.001
train: {steps: 12, batch_size: 16, log_every: 1, loss_weights: {balance: 10}}
checkpoint: {every: 3, keep_last: 10}
run: {threads: 2}
infer: {method: {type: greedy}, input: pairs.few, max_length: 12}
YAML
}
head -n 6 pairs.en > pairs.few

# numbers RUN KEY: prints a number of each step.
numbers() {
  python3 -c 'import json, sys
for line in open(sys.argv[1] + "/metrics.jsonl"): print(json.loads(line)[sys.argv[2]])' "$1" "$2"
}

keys=(loss loss/balance report/experts/max_load report/experts/dropped report/experts/unrouted report/router/entropy)
arrangements=(
  "mesh=null layout=null"
  "mesh=x:2 layout=batch:x;experts:x"
  "mesh=x:2;y:2 layout=batch:x;experts:y"
  "mesh=x:8 layout=batch:x;experts:x"
  "mesh=x:4 layout=batch:x parameter_layout=experts:x"
  "mesh=x:2;y:2 layout=batch:x;experts:x;expert_hidden:y;heads:y;vocab:y"
  "mesh=x:2;y:2 layout=batch:x;length:y;experts:y optimizer_layout=d_model:x"
  "mesh=x:2 layout=experts:x train.microbatches=4"
  "mesh=x:4 layout=batch:x;experts:x train.microbatches=2 train.recompute=block")

RANDOM=11
arranged() {  # NAME OPTIONS : the run on one position against one that moves on after every third step
  local name=$1 key step
  model "$2" > "$name.yaml"
  expect_exit 0 "$mtf_train" "$name.yaml" run.model_dir="$name"
  for step in 3 6 9 12; do
    read -ra words <<< "${arrangements[RANDOM % ${#arrangements[@]}]}"
    expect_exit 0 "$mtf_train" "$name.yaml" run.model_dir="$name-moves" train.steps=$step "${words[@]}"
    echo "$name up to step $step: ${words[*]}"
  done
  for key in "${keys[@]}"; do
    expect_close <(numbers "$name-moves" "$key") <(numbers "$name" "$key") 2e-4
  done
  expect_exit 0 "$mtf_train" "$name.yaml" run.model_dir="$name" run.mode=infer infer.output="$name.txt"
  expect_exit 0 "$mtf_train" "$name.yaml" run.model_dir="$name" run.mode=infer infer.output="$name.split.txt" "mesh=x:2;y:2" \
    "layout=batch:x;experts:y"
  cmp "$name.txt" "$name.split.txt" || fail "$name: other texts on 2x2"
}

arranged top_2 "gating: top_2, capacity_factor_train: 1"
arranged switch "gating: switch, capacity_factor_train: 1, switch_policy_train: input_jitter"
arranged top_k "gating: top_k, score: sigmoid, scale: 2.5, selection_bias: true, shared_experts: 1, expert_groups: 2"
arranged top_k_capacity "gating: top_k, dispatch: capacity, capacity_factor_train: 1, activation: [swish, linear]"

# Two processes exchange the tokens by a network.
port=$(free_ports 1)
for rank in 0 1; do
  start_rank $rank 2 "$mtf_train" top_k.yaml run.model_dir=processes "mesh=x:4" "layout=batch:x;experts:x"
done
all_end 120 0 0
for key in "${keys[@]}"; do expect_close <(numbers processes "$key") <(numbers top_k "$key") 2e-4; done

# A text is written alone as among others, also where an encoder has a capacity.
model "gating: top_2, min_expert_capacity: 1, capacity_factor_eval: 0.5" | sed -E '
  s/type: lm/type: bitransformer/
  s/^  num_layers.*/  encoder: {num_layers: 2, block: [SelfAttention, MoE1D]}/
  s/^  block.*/  decoder: {num_layers: 2, block: [SelfAttention, EncDecAttention, MoE1D]}/
  s/^    SelfAttention(.*)/    SelfAttention\1\n    EncDecAttention\1/' > both.yaml
expect_exit 0 "$mtf_train" both.yaml run.model_dir=both
expect_exit 0 "$mtf_train" both.yaml run.model_dir=both run.mode=infer infer.output=together.txt
while read -r line; do
  echo "$line" > alone.txt
  expect_exit 0 "$mtf_train" both.yaml run.model_dir=both run.mode=infer infer.input=alone.txt infer.output=written.txt
  cat written.txt >> apart.txt && rm written.txt
done < pairs.few
cmp together.txt apart.txt || fail "texts depend on those beside them"

# Every report is there.
for key in experts/{max_load,min_load,unused,unrouted,dropped} router/{entropy,weight_1,weight_2,max_logit,min_gap,bias_max}; do
  numbers top_k "report/$key" > /dev/null || fail "no report/$key"
done
numbers top_2 report/experts/fill > /dev/null
