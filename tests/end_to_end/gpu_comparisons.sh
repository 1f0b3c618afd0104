#!/usr/bin/env bash
# gpu_comparisons.sh MTF_TRAIN SOURCE_DIR [STEPS]: runs on the first GPU against each other and against the processor. Prints
# a line for each comparison, "ok" or "FAIL" first, and goes on after failures; exits with 1 if there was one. The checks of
# tools/gpu_checks.py; tests/end_to_end/gpu_test.sh tests more and stops at the first failure.
#
# Same bits: recorded (as CUDA graphs), recorded again, and operation by operation (steps that are profiled are not recorded).
# Up to rounding: the processor, bfloat16, four positions on the GPU, two processes that share it.
source "$(dirname "$0")/common.sh"
set +e
steps=${3:-20}
source "$source_dir/tests/end_to_end/device_models.sh"
reports=0
failures=0

# report CODE NAME TEXT
report() {
  reports=$((reports + 1))
  if [ "$1" = 0 ]; then echo "ok    $2: $3"; else echo "FAIL  $2: $3"; failures=$((failures + 1)); fi
}

# train NAME ARGUMENT...: a run in directory NAME.
train() {
  local name=$1 code
  shift
  timeout 200 "$mtf_train" "$@" train.steps="$steps" evaluate=null run.model_dir="$name" > "$name.log" 2>&1
  code=$?
  [ $code = 0 ] || report $code "$name" "exit code $code: $(grep -v '|' "$name.log" | tail -n 1)"
}

# compare NAME A B ARGUMENT...: what mtf-compare says of two runs.
compare() {
  local name=$1 code
  shift
  "$mtf_compare" "$@" > compared 2>&1
  code=$?
  report $code "$name" "$(grep -E '^(same|different|error)' compared | head -n 1)"
}

for model in mnist lm; do
  if [ $model = mnist ]; then arguments=("${mnist[@]}"); else arguments=(lm.yaml); fi
  train $model-recorded "${arguments[@]}" devices=cuda:0
  train $model-again "${arguments[@]}" devices=cuda:0
  train $model-eager "${arguments[@]}" devices=cuda:0 profile.skip=0 profile.steps="$steps"
  train $model-cpu "${arguments[@]}" devices=cpu
  compare "$model recorded = again" $model-recorded $model-again
  compare "$model recorded = operation by operation" $model-recorded $model-eager
  compare "$model recorded ~ processor, metrics" $model-recorded $model-cpu --metrics --tolerance 1e-3
done

train bfloat16 lm.yaml devices=cuda:0 precision.activation=bfloat16
compare "bfloat16 ~ float32, metrics" bfloat16 lm-recorded --metrics --tolerance 5e-2
# Attention of packed rows by cuDNN.
for run in own cudnn cudnn-again; do
  train attention-$run lm.yaml devices=cuda:0 precision.activation=bfloat16 model.layer_defaults.SelfAttention.dropout=0 \
    run.attention="${run%-again}"
done
compare "attention by cuDNN = again" attention-cudnn attention-cudnn-again
compare "attention by cuDNN ~ own kernels, metrics" attention-cudnn attention-own --metrics --tolerance 5e-2
train positions lm.yaml devices='cuda:0*4' "mesh=rows:2;cols:2" "layout=batch:rows;heads:cols;d_ff:cols" parameter_layout=vocab:rows
compare "four positions ~ one, metrics" positions lm-recorded --metrics --tolerance 1e-3

timeout 200 "$(dirname "$mtf_train")/mtf-launch" -n 2 -- "$mtf_train" lm.yaml train.steps="$steps" evaluate=null run.model_dir=processes \
  devices=cuda:0 mesh=all:2 layout=batch:all > processes.log 2>&1
report $? "two processes on the GPU" "$(grep -m 1 collectives processes.log || tail -n 1 processes.log)"
compare "two processes ~ one, metrics" processes lm-recorded --metrics --tolerance 1e-3

# A model that no card has room for is refused with its size, before the first step.
"$mtf_train" "${mnist[@]}" train.steps=2 devices=cuda:0 vars.hidden=40000000 evaluate=null run.model_dir=large > large.log 2>&1
code=$?
grep -q "of the GPU's memory" large.log && [ $code = 1 ]
report $? "too large a model is refused" "exit code $code: $(grep -m 1 "of the GPU's memory" large.log | cut -c 1-100)"
echo "$failures of $reports failed"
[ $failures = 0 ]
