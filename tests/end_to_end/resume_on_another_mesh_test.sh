#!/usr/bin/env bash
# Tests that runs on other meshes resume from a checkpoint: the same examples, the same dropout, losses equal
# up to rounding.
source "$2/tests/end_to_end/common.sh"
read -ra data <<< "$(mnist_data)"
run=("$mtf_train" "$source_dir/configs/models/mnist_dropout.yaml" "${data[@]}" vars.hidden=64 train.batch_size=40 train.epochs=null train.log_every=1
  "optimizer={type: adam, clip_norm: 1}" learning_rate=0.0001)
square=("mesh=rows:2;cols:2" "layout=batch:rows;hidden:cols")

expect_exit 0 "${run[@]}" train.steps=60 run.model_dir=whole
expect_exit 0 "${run[@]}" "${square[@]}" train.steps=30 run.model_dir=square
losses whole > whole.losses

declare -A layouts=(
  [one]="mesh=null layout=null"
  [eight]="mesh=all:8 layout=batch:all"
  [four]="mesh=rows:4;cols:1 layout=batch:rows;hidden:cols"
  [fsdp]="mesh=all:8 layout=batch:all parameter_layout=hidden:all"
  [zero1]="mesh=all:4 layout=batch:all optimizer_layout=hidden:all"
  [model]="mesh=all:2 layout=hidden:all")
for name in "${!layouts[@]}"; do
  cp -r square "on_$name"
  read -ra words <<< "${layouts[$name]}"
  expect_exit 0 "$mtf_train" "on_$name/config.yaml" train.steps=60 "${words[@]}"
  expect_text "continues after step 30 of on_$name, saved on rows=2 cols=2"
  losses "on_$name" > losses
  expect_close losses whole.losses 1e-5
  # `examples` counts the rows of the training stream, which alone determine the examples.
  cmp <(sed 's/.*"examples":\([0-9]*\),.*/\1/' whole/metrics.jsonl) <(sed 's/.*"examples":\([0-9]*\),.*/\1/' "on_$name/metrics.jsonl") ||
    fail "another stream of examples on $name"
  expect_exit 0 "$mtf_compare" --tolerance 1e-3 --tensors whole "on_$name"
done

# The same checkpoint is evaluated on another mesh.
"$mtf_train" whole/config.yaml run.mode=evaluate > one.json 2> /dev/null
"$mtf_train" whole/config.yaml run.mode=evaluate "${square[@]}" > square.json 2> /dev/null
expect_close <(sed 's/.*"loss":\([^,]*\),.*/\1/' one.json) <(sed 's/.*"loss":\([^,]*\),.*/\1/' square.json) 1e-5
