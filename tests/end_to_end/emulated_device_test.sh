#!/usr/bin/env bash
# Tests runs on a GPU that the host emulates: the CUDA backend without CUDA.
source "$2/tests/end_to_end/common.sh"
use_emulated_gpu
device_steps=6
source "$source_dir/tests/end_to_end/device_runs.sh"

# Errors in `devices` are reported.
expect_exit 0 "$mtf_train" --list-devices
expect_text "cuda:0"
expect_exit 2 "$mtf_train" "${mnist[@]}" devices=cuda:1
expect_text 'there is no `cuda:1`; this machine shows 1 GPU; `cuda:0`'
expect_exit 2 "$mtf_train" "${mnist[@]}" devices=cuda mesh=all:8 layout=batch:all
expect_text '`mesh` has 8 positions, and there is 1 GPU; `devices: cuda:0*8` puts all positions on one GPU'
expect_exit 2 "$mtf_train" "${mnist[@]}" "devices=[cuda:0, cpu]"
expect_text "mixes processors and GPUs"
