#!/usr/bin/env bash
# Two processes share a GPU over NCCL, each as if it were on a host of its own, and equal one process with both positions:
# recorded, and eager. Skipped if there is no GPU or no NCCL.
source "$2/tests/end_to_end/common.sh"
source "$source_dir/tests/end_to_end/processes.sh"
use_gpu
source "$source_dir/tests/end_to_end/device_models.sh"
# The processes meet on the loopback interface; their kernels take turns.
export MTF_NCCL_SHARED_GPU=1 NCCL_SOCKET_IFNAME=lo NCCL_IB_DISABLE=1 NCCL_DEBUG=WARN

# two DIRECTORY ARGUMENT...: runs two processes.
two() {
  local directory=$1
  shift
  expect_exit 0 timeout 300 "$mtf_launch" -n 2 -- "$mtf_train" "$@" train.steps=6 devices=cuda:0 run.model_dir="$directory"
  expect_text "collectives: NCCL"
}
# pair DIRECTORY ARGUMENT...: two processes agree with one, with and without CUDA graphs.
pair() {
  local directory=$1
  shift
  expect_exit 0 "$mtf_train" "$@" train.steps=6 devices=cuda:0*2 run.model_dir="$directory"
  two "$directory-two" "$@"
  agree "$directory-two" "$directory" 1e-3
  MTF_CUDA_GRAPHS=0 two "$directory-eager" "$@"
  agree "$directory-eager" "$directory-two" 1e-3
}

expect_exit 0 timeout 120 "$mtf_launch" -n 2 -- "$mtf_train" lm.yaml mesh=all:2 layout=batch:all devices=cuda:0 train.steps=1 run.model_dir=first
if ! grep -qF "collectives: NCCL" out; then
  [ "${MTF_REQUIRE_GPU:-0}" != 1 ] || fail "$(grep collectives out)"
  echo "skipped: $(grep collectives out)"
  exit 77
fi
check pair data lm.yaml mesh=all:2 layout=batch:all
check pair model lm.yaml mesh=all:2 "layout=heads:all;d_ff:all;vocab:all"
check pair fsdp lm.yaml mesh=all:2 layout=batch:all parameter_layout=d_model:all
check pair bfloat16 lm.yaml mesh=all:2 layout=batch:all precision.activation=bfloat16
report_failures
