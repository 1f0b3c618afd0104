#!/usr/bin/env bash
# Tests offload.slots: host and offload.activations: host on an emulated GPU: the same bits as without, after a kill, on meshes
# and in processes as well; the plan has less memory of the GPU, more of the machine and the time of the link;
# train.recompute: auto counts on it.
source "$2/tests/end_to_end/common.sh"
source "$source_dir/tests/end_to_end/processes.sh"
use_emulated_gpu
read -ra data <<< "$(mnist_data)"
run=("$mtf_train" "$source_dir/configs/models/mnist.yaml" "${data[@]}" vars.hidden=64 train.batch_size=40 train.epochs=null
  learning_rate=0.003 train.log_every=1 evaluate.every=5 run.threads=1 train.steps=8 checkpoint.every=4 devices=cuda)

cat > blocks.yaml << 'END'
data: {train: {type: identity, size: 256, examples: 100, dimension: io}}
model:
  type: regression
  input: x
  target: y
  layers:
    - repeat: {name: more, times: 6, layers: [{residual: {layers: [{dense: {output: {hidden: 256}, activation: relu}}, {dense: {output: {io: 256}}}]}}]}
optimizer: adam
learning_rate: 0.001
train: {steps: 2, batch_size: 1024, recompute: none}
END

# same NAME ARGUMENT...: runs with the slots on the GPU and on the host must have the same bits.
same() {
  local name=$1 place
  shift
  for place in device host; do expect_exit 0 "${run[@]}" "$@" offload.slots=$place "run.model_dir=$name.$place"; done
  expect_same_run 8 "$name.device" "$name.host"
}
same adamw optimizer=adamw
same codes optimizer=adamw precision.slots=int8
same lion optimizer=lion precision.slots=bfloat16
same adafactor 'optimizer={type: adafactor, beta1: 0.9}' train.ema_decay=0.9
same meshed optimizer=adam "mesh=all:4" layout=batch:all optimizer_layout=hidden:all "devices=cuda:0*4"
MTF_EMULATED_DEVICES=2 same processes optimizer=adam mesh=all:2 layout=batch:all optimizer_layout=hidden:all

# Updates of many weights in groups: codes of a GPU are those of the processor up to the rounding of sums.
for place in device host; do
  for type in float32 int8; do
    grouped=("$mtf_train" blocks.yaml train.batch_size=20 train.steps=4 train.log_every=1 precision.slots=$type)
    expect_exit 0 "${grouped[@]}" devices=cuda offload.slots=$place "run.model_dir=grouped.$type.$place"
  done
done
for type in float32 int8; do
  expect_exit 0 "$mtf_compare" grouped.$type.device grouped.$type.host
  expect_text "same: 4 steps"
done
expect_exit 0 "${grouped[@]}" devices=cpu run.model_dir=grouped.processor
losses grouped.processor > on_processor
losses grouped.int8.device > on_gpu
expect_close on_gpu on_processor 1e-4

# The key is free to change when a run goes on.
expect_exit 137 env MTF_FAULT=metrics.line@6 "${run[@]}" optimizer=adamw offload.slots=host run.model_dir=killed
expect_exit 0 "${run[@]}" optimizer=adamw offload.slots=device run.model_dir=killed
expect_same_run 8 killed adamw.device

# planned KEY ARGUMENT...: prints a number of the plan for a GPU that need not be there.
planned() {
  local key=$1
  shift
  "${run[@]}" optimizer=adamw vars.hidden=2048 "$@" run.mode=explain explain.format=json > explained.json || fail "cannot explain $*"
  python3 -c "import json; plan = json.load(open('explained.json')); print($key)"
}
device='plan["memory"]["device"]["bytes"]' machine='plan["memory"]["process"]["bytes"]'
slots='sum(v["bytes"] for v in plan["variables"] if v["kind"] == "slot")'
bytes=$(planned "$slots")
saved=$(($(planned "$device") - $(planned "$device" offload.slots=host)))
more=$(($(planned "$machine" offload.slots=host) - $(planned "$machine")))
echo "slots of $bytes bytes: $saved less on the GPU, $more more on the machine"
for change in $saved $more; do
  [ "$change" -ge "$bytes" ] && [ "$change" -lt $((bytes + (8 << 20))) ] || fail "the plan changes by $change bytes"
done
position='plan["memory"]["position"]["bytes"]'
[ $(($(planned "$position") - $(planned "$position" offload.slots=host))) -eq "$bytes" ] || fail "a position keeps its slots"

# 2 slots are read over the link while 2 are written.
hardware="{device: {kind: cuda, flops: 1e15, bandwidth: 1e15, host_link: 1e9}}"
seconds='plan["prediction"]["seconds"]'
python3 - "$(planned "$seconds" "hardware=$hardware")" "$(planned "$seconds" "hardware=$hardware" offload.slots=host)" "$bytes" << 'END' || fail "the link takes no time"
import sys
without, with_link, slots = map(float, sys.argv[1:])
assert abs((with_link - without) / (slots / 1e9) - 1) < 0.05, (with_link, without, slots)
END

# What fits with the slots on the host needs no recomputation.
chosen() {
  "$mtf_train" blocks.yaml train.recompute=auto devices=cuda run.mode=explain explain.format=json "run.device_memory_limit=$limit" "$@" > explained.json || fail "cannot explain $*"
  python3 -c 'import json; print(json.load(open("explained.json"))["recompute"]["recompute"])'
}
limit=$("$mtf_train" blocks.yaml devices=cuda run.mode=explain explain.format=json train.recompute=none offload.slots=host |
  python3 -c 'import json, sys; print(json.load(sys.stdin)["memory"]["device"]["bytes"])')
[ "$(chosen offload.slots=host)" = none ] || fail "recomputes what fits"
[ "$(chosen offload.slots=device)" != none ] || fail "recomputes nothing where the slots do not fit"

# kept NAME ARGUMENT...: runs with activations on the GPU and on the host must have the same bits.
kept() {
  local name=$1 place
  shift
  for place in device host; do
    expect_exit 0 "$mtf_train" blocks.yaml train.batch_size=24 train.steps=4 train.log_every=1 devices=cuda "$@" \
      offload.activations=$place offload.least_bytes=1KB "run.model_dir=kept.$name.$place"
  done
  grep -q "results kept for the backward pass" "kept.$name.host/log.txt" || fail "$name: nothing is moved"
  expect_exit 0 "$mtf_compare" "kept.$name.device" "kept.$name.host"
  expect_text "same: 4 steps"
}
kept alone
MTF_EMULATED_STREAMS=early kept early
MTF_CUDA_GRAPHS=0 kept enqueued
MTF_CUDA_CHECK=1 kept awaited
kept microbatches train.microbatches=3
kept recomputed "train.recompute={residual: 3}"
kept checked run.check_replicas=true mesh=all:2 layout=batch:all "devices=cuda:0*2"
kept positions mesh=all:4 layout=batch:all parameter_layout=hidden:all "devices=cuda:0*4"
kept split "mesh=rows:2;cols:2" "layout=batch:rows;hidden:cols" "devices=cuda:0*4"
MTF_EMULATED_DEVICES=2 kept gpus mesh=all:2 layout=batch:all parameter_layout=hidden:all
MTF_EMULATED_DEVICES=2 kept gloo mesh=all:2 layout=batch:all cluster.collectives=gloo
kept stages mesh=stages:2 layout=layers:stages train.microbatches=4 "devices=cuda:0*2"
kept slots offload.slots=host precision.slots=int8

# kept_plan KEY ARGUMENT...: prints a number of the plan of the large model.
kept_plan() {
  local key=$1
  shift
  "$mtf_train" blocks.yaml devices=cuda "$@" run.mode=explain explain.format=json > explained.json || fail "cannot explain $*"
  python3 -c "import json; plan = json.load(open('explained.json')); print($key)"
}
temporaries='plan["memory"]["device"]["parts"]["temporaries"]'
on_host='plan["memory"]["process"]["parts"].get("results kept for the backward pass", 0)'
without=$(kept_plan "$temporaries") with=$(kept_plan "$temporaries" offload.activations=host)
moved=$(kept_plan "$on_host" offload.activations=host)
echo "temporaries of $without bytes: $with on the GPU with $moved on the machine"
[ $((3 * with)) -lt $((2 * without)) ] || fail "the GPU keeps what was moved"
[ "$moved" -ge $((without - with)) ] || fail "the machine has $moved bytes"
[ "$(kept_plan "$on_host")" -eq 0 ] && [ "$(kept_plan "$on_host" offload.activations=host offload.least_bytes=2MB)" -eq 0 ] || fail "small results move"

# A fast link hides the copies; with a slow one the step takes as long as it.
fast="{device: {kind: cuda, flops: 1e12, bandwidth: 1e12, host_link: 1e15}}"
slow="{device: {kind: cuda, flops: 1e15, bandwidth: 1e15, host_link: 1e9}}"
python3 - "$(kept_plan "$seconds" "hardware=$fast")" "$(kept_plan "$seconds" "hardware=$fast" offload.activations=host)" \
  "$(kept_plan "$seconds" "hardware=$slow" offload.activations=host)" "$moved" << 'END' || fail "the times of transfers"
import sys
without, hidden, by_link, moved = map(float, sys.argv[1:])
assert hidden < 1.01 * without, (hidden, without)
assert by_link > 1.9 * moved / 1e9, (by_link, moved)
END

# On the processor the keys change nothing, and a line says so.
expect_exit 0 "${run[@]}" devices=cpu optimizer=adamw offload.slots=host offload.activations=host run.model_dir=processor
expect_text "\`offload.slots: host\` is for GPUs"
expect_text "\`offload.activations: host\` is for GPUs"
expect_exit 2 "${run[@]}" offload.slots=disk
expect_text "offload.slots"
