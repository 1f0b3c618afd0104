#!/usr/bin/env bash
# Tests runs on a GPU that the host emulates: the CUDA backend without CUDA.
source "$2/tests/end_to_end/common.sh"
use_emulated_gpu
device_steps=6 close_steps=6 text_steps=60 text_differences=0
source "$source_dir/tests/end_to_end/device_runs.sh"
report_failures

# Errors in `devices` are reported.
expect_exit 0 "$mtf_train" --list-devices
expect_text "cuda:0"
expect_exit 2 "$mtf_train" "${mnist[@]}" devices=cuda:1
expect_text 'there is no `cuda:1`; this machine shows 1 GPU; `cuda:0`'
expect_exit 2 "$mtf_train" "${mnist[@]}" devices=cuda mesh=all:8 layout=batch:all
expect_text '`mesh` has 8 positions, and there is 1 GPU; `devices: cuda:0*8` puts all positions on one GPU'
expect_exit 2 "$mtf_train" "${mnist[@]}" "devices=[cuda:0, cpu]"
expect_text "mixes processors and GPUs"

# run.tune records the algorithms that were fastest. A run that finds a record takes it: the same bits.
on cuda:0 tuned lm.yaml run.tune=true
grep -q "us by algorithm . of 2" tuned/log.txt || fail "nothing was measured"
mkdir again
cp tuned/algorithms.json again/
on cuda:0 again lm.yaml run.tune=true
grep -q "us by algorithm" again/log.txt && fail "measured again"
expect_exit 0 "$mtf_compare" tuned again
expect_text "same: $device_steps steps"
sed 's/: [01]\(,\?\)$/: 1\1/' tuned/algorithms.json > ones
mkdir other
cp ones other/algorithms.json
on cuda:0 other lm.yaml run.tune=true
cmp ones other/algorithms.json || fail "another record"
agree other lm-cpu 1e-3
expect_exit 1 "$mtf_compare" lm-cuda other
echo "{" > other/algorithms.json
expect_exit 1 "$mtf_train" lm.yaml train.steps=$((device_steps + 1)) devices=cuda:0 run.model_dir=other run.tune=true
expect_text "other/algorithms.json: "

# A matmul library that lacks algorithms: other ways are taken, and named.
for limit in plain aligned none; do
  MTF_EMULATED_MATMULS=$limit on cuda:0 limit-$limit lm.yaml precision.activation=bfloat16
  agree limit-$limit lm-cuda 3e-2
done
grep -q "emulated has no algorithm for a product of .*: a slow kernel computes it" limit-none/log.txt || fail "no warning"

# run.attention: cudnn computes attention of packed rows, and says what it leaves to the other kernels.
without_dropout=(lm.yaml precision.activation=bfloat16 model.layer_defaults.SelfAttention.dropout=0)
attention=(lm.yaml precision.activation=bfloat16 run.attention=cudnn)
on cuda:0 cudnn "${without_dropout[@]}" run.attention=cudnn
on cuda:0 no-cudnn "${without_dropout[@]}" run.attention=own
grep -q "does not compute" cudnn/log.txt && fail "attention is not computed by the library"
agree cudnn no-cudnn 3e-2
on cuda:0 cudnn-dropout "${attention[@]}"
[ "$(grep -c "emulated cudnn does not compute attention with dropout: a kernel of mtf-train does" cudnn-dropout/log.txt)" = 1 ] ||
  fail "no line, or several, on dropout"
# By default it does where it is faster: not with the segments of packed rows, but where a row is one text.
on cuda:0 auto "${without_dropout[@]}"
expect_exit 0 "$mtf_compare" auto no-cudnn
for choice in auto own cudnn; do
  on cuda:0 one-text-$choice "${without_dropout[@]}" data.packing=none run.attention=$choice
done
expect_exit 0 "$mtf_compare" one-text-auto one-text-cudnn
expect_exit 1 "$mtf_compare" one-text-auto one-text-own
agree one-text-auto one-text-own 3e-2
MTF_EMULATED_CUDNN=none on cuda:0 without-cudnn "${without_dropout[@]}"
expect_text "attention without segments is two to three times as fast by cuDNN: cannot load a library of CUDA"
MTF_EMULATED_CUDNN=none expect_exit 2 "$mtf_train" "${attention[@]}" devices=cuda
expect_text '`run.attention: cudnn`: cannot load a library of CUDA'
expect_exit 0 "$mtf_train" "${attention[@]}" train.steps=1 run.model_dir=no-gpu
expect_text '`run.attention: cudnn` is for GPUs'

# Tests of a GPU are skipped where there is none, unless one is required, and fail for any other reason.
(MTF_EMULATED_DEVICES=0 use_gpu > skipped) && fail "not skipped" || [ $? -eq 77 ] || fail "no exit code for a skipped test"
grep -q "skipped: no GPU: there is no GPU that CUDA can use" skipped || fail "$(cat skipped)"
(MTF_EMULATED_DEVICES=0 MTF_REQUIRE_GPU=1 use_gpu 2> errors) && fail "a missing GPU is no failure" || [ $? -eq 1 ] || fail "exit code of a failure"
(MTF_CUDA_PLUGIN=/nowhere.so use_gpu 2> errors) && fail "a missing plugin is no failure" || [ $? -eq 1 ] || fail "exit code of a failure"

# A recording that fails costs its speed alone: at a launch, or when the graph is made.
for fault in capture graph; do
  MTF_EMULATED_FAULT=$fault expect_exit 0 "$mtf_train" lm.yaml $steps devices=cuda run.model_dir=$fault
  expect_text "steps run without CUDA graphs: CUDA, "
  expect_exit 0 "$mtf_compare" lm-cuda $fault
  expect_text "same: $device_steps steps"
done
MTF_EMULATED_FAULT=graph expect_exit 0 "$mtf_train" lm-cuda/config.yaml run.mode=evaluate devices=cuda
expect_text "steps run without CUDA graphs: CUDA, making a graph"

# A kernel that fails in a replay: the error names the command that finds its operation, which does.
failing=(lm.yaml $steps devices=cuda "layout=batch:rows" mesh=rows:1)
MTF_EMULATED_FAULT=kernel:CrossEntropy:4 expect_exit 1 "$mtf_train" "${failing[@]}" run.model_dir=replay
expect_text "an illegal memory access was encountered"
expect_text "\`MTF_CUDA_CHECK=1 $mtf_train lm.yaml $steps devices=cuda layout=batch:rows mesh=rows:1 run.model_dir=replay\`"
MTF_EMULATED_FAULT=kernel:CrossEntropy:4 MTF_CUDA_CHECK=1 expect_exit 1 "$mtf_train" "${failing[@]}" run.model_dir=checked
expect_text "emulated GPU failed in "
expect_text "= softmax_cross_entropy("
expect_text "compute-sanitizer"
# Without a failure the checked run has the same bits.
MTF_CUDA_CHECK=1 expect_exit 0 "$mtf_train" lm.yaml $steps devices=cuda run.model_dir=awaited
expect_text "MTF_CUDA_CHECK=1: the GPU is awaited after each instruction"
expect_exit 0 "$mtf_compare" lm-cuda awaited
expect_text "same: $device_steps steps"
MTF_CUDA_GRAPHS=maybe expect_exit 2 "$mtf_train" lm.yaml $steps devices=cuda run.model_dir=wrong
expect_text 'MTF_CUDA_GRAPHS: `maybe`; 0 or 1'
