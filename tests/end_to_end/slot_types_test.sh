#!/usr/bin/env bash
# Tests precision.slots, bfloat16 and int8, by the command line: explain shows the smaller slots, a killed run ends with the bits
# of an undisturbed one, threads and processes do not matter, layouts agree, checkpoints of one type go on with
# the others, every optimizer runs.
source "$2/tests/end_to_end/common.sh"
source "$2/tests/end_to_end/processes.sh"
read -ra data <<< "$(mnist_data)"
run=("$mtf_train" "$source_dir/configs/models/mnist.yaml" "${data[@]}" vars.hidden=48 train.batch_size=40 train.epochs=null
  learning_rate=0.003 train.log_every=1 evaluate.every=0 run.threads=2)

# slots ARGUMENT...: prints the bytes of optimizer slots.
slots() {
  expect_exit 0 "${run[@]}" optimizer=adamw train.steps=1 run.mode=explain explain.format=json "$@"
  python3 -c 'import json, sys
print(sum(v["bytes"] for v in json.load(open(sys.argv[1]))["variables"] if v["kind"] == "slot"))' out
}
wide=$(slots) narrow=$(slots precision.slots=bfloat16) coded=$(slots precision.slots=int8)
[ "$wide" -gt 0 ] && [ "$wide" -eq $((2 * narrow)) ] || fail "slots of $wide and $narrow bytes"
# Rows of 48 codes have 4 bytes for their largest magnitude; biases and the last layer stay float32.
codes=$((2 * 784 * 48)) rows=$((2 * 784 * 4)) others=$((2 * 4 * (48 + 48 * 10 + 10)))
[ "$coded" -eq $((codes + rows + others)) ] || fail "slots of $coded bytes in codes"

steps=15
expect_exit 0 "${run[@]}" optimizer=adamw train.steps=$steps run.model_dir=float32
losses float32 > wide

# split ARGUMENT...: the losses of all steps must agree.
split() {
  rm -rf split
  expect_exit 0 "${adam[@]}" train.steps=$steps run.model_dir=split "$@"
  losses split > split.losses
  expect_close split.losses narrow 1e-5
}

# expect_type TYPE DIFFERENCE: all that must hold with slots of this type, whose losses may differ so much.
expect_type() {
  local type=$1 difference=$2 optimizer rank port
  adam=("${run[@]}" optimizer=adamw precision.slots=$type)
  rm -rf undisturbed killed one_thread one_process two_processes
  expect_exit 0 "${adam[@]}" checkpoint.every=5 train.steps=$steps run.model_dir=undisturbed
  expect_exit 137 env MTF_FAULT=metrics.line@13 "${adam[@]}" checkpoint.every=5 train.steps=$steps run.model_dir=killed
  expect_exit 0 "${adam[@]}" checkpoint.every=5 train.steps=$steps run.model_dir=killed
  expect_same_run $steps undisturbed killed
  expect_exit 0 "${adam[@]}" checkpoint.every=5 train.steps=$steps run.model_dir=one_thread run.threads=1
  expect_same_run $steps undisturbed one_thread
  expect_exit 1 "$mtf_compare" undisturbed float32
  losses undisturbed > narrow
  expect_close narrow wide "$difference"

  split mesh=rows:2 layout=batch:rows
  split mesh=all:2 layout=batch:all optimizer_layout=hidden:all
  split "mesh=rows:2;cols:2" "layout=batch:rows;hidden:cols"
  split mesh=all:8 layout=batch:all parameter_layout=hidden:all

  # Another mesh goes on with a checkpoint.
  rm -rf moved
  expect_exit 0 "${adam[@]}" train.steps=8 run.model_dir=moved
  expect_exit 0 "${adam[@]}" train.steps=$steps run.model_dir=moved mesh=all:4 layout=batch:all optimizer_layout=hidden:all
  losses moved > moved.losses
  expect_close moved.losses narrow 1e-5

  # Two processes have the bits of one with the same mesh.
  mesh=("mesh=rows:2" "layout=batch:rows" "optimizer_layout=hidden:rows" train.steps=6)
  expect_exit 0 "${adam[@]}" "${mesh[@]}" run.model_dir=one_process
  port=$(free_ports 1)
  for rank in 0 1; do start_rank $rank 2 "${adam[@]}" "${mesh[@]}" run.threads=1 run.model_dir=two_processes; done
  all_end 60 0 0
  expect_same_run 6 one_process two_processes

  for optimizer in momentum adam adam_weight_decay '{type: adafactor, beta1: 0.9}' '{type: adafactor, factored: false}' lion muon soap sgd; do
    rm -rf each
    expect_exit 0 "${run[@]}" "optimizer=$optimizer" precision.slots=$type train.steps=3 run.model_dir=each
  done
  rm -rf narrow_weights
  expect_exit 0 "${adam[@]}" precision.activation=bfloat16 precision.slice=bfloat16 train.microbatches=2 train.ema_decay=0.9 \
    train.noise_scale_decay=0.9 train.steps=3 run.model_dir=narrow_weights
}
expect_type bfloat16 0.02
expect_type int8 0.05

# A checkpoint with slots of one type goes on with another, also on a mesh that splits the rows.
expect_exit 0 "${run[@]}" optimizer=adamw train.steps=3 run.model_dir=changed
done=3
for type in bfloat16 int8 float32 int8 bfloat16; do
  done=$((done + 2))
  expect_exit 0 "${run[@]}" optimizer=adamw precision.slots=$type train.steps=$done run.model_dir=changed \
    mesh=all:2 layout=batch:all optimizer_layout=hidden:all
  expect_text "precision.slots"
done
expect_exit 0 "${run[@]}" optimizer=adamw precision.slots=float32 train.steps=$steps run.model_dir=changed
losses changed > changed.losses
expect_close changed.losses wide 0.05

expect_exit 2 "${run[@]}" precision.slots=int4 train.steps=1
expect_text "precision.slots"
