#!/usr/bin/env bash
# Tests the optimizer soap by the command line: a killed run ends with the bits of an undisturbed one, threads do not
# matter, other meshes and parameter layouts agree up to rounding, and bad options are refused.
source "$2/tests/end_to_end/common.sh"
read -ra data <<< "$(mnist_data)"
run=("$mtf_train" "$source_dir/configs/models/mnist.yaml" "${data[@]}" vars.hidden=48 train.batch_size=40 train.epochs=null
  learning_rate=0.003 train.log_every=1 evaluate.every=0 'optimizer={type: soap, precondition_frequency: 4, weight_decay: 0.01}')

# Between the refreshes of the bases in steps 8 and 12.
steps=17
expect_exit 0 "${run[@]}" checkpoint.every=5 train.steps=$steps run.model_dir=undisturbed
expect_exit 137 env MTF_FAULT=metrics.line@13 "${run[@]}" checkpoint.every=5 train.steps=$steps run.model_dir=killed
expect_exit 0 "${run[@]}" checkpoint.every=5 train.steps=$steps run.model_dir=killed
expect_exit 0 "$mtf_compare" undisturbed killed
expect_text "same: $steps steps"

expect_exit 0 "${run[@]}" checkpoint.every=5 train.steps=$steps run.model_dir=one_thread run.threads=1
expect_exit 0 "$mtf_compare" undisturbed one_thread

# split ARGUMENT...: the losses of all steps must agree. Tensors need not: where gradients say nothing about a direction,
# rounding errors choose its vector, and a unit may become active in a step more or less.
split() {
  rm -rf split
  expect_exit 0 "${run[@]}" train.steps=$steps run.model_dir=split "$@"
  "$mtf_compare" undisturbed split --tolerance 2e-3 > out || true
  grep -Eq "^  loss +0 " out || { cat out >&2; fail "losses differ with $*"; }
}
split "mesh=rows:2" "layout=batch:rows"
split "mesh=cols:2" "layout=hidden:cols"
split "mesh=rows:2;cols:2" "layout=batch:rows;hidden:cols"
split "mesh=all:8" "layout=batch:all" "optimizer_layout=hidden:all"

expect_exit 2 "${run[@]}" train.steps=1 optimizer.precondition_frequency=0
expect_exit 2 "${run[@]}" train.steps=1 optimizer.max_precondition_size=-1
