#!/usr/bin/env bash
# Tests that the memory of a GPU is planned: a run for which an emulated GPU has exactly the planned memory runs,
# one byte less is refused before anything is written, and with 3 % less an allocation fails. run.mode=explain
# works without a GPU.
source "$2/tests/end_to_end/common.sh"
source "$source_dir/tests/end_to_end/processes.sh"
use_emulated_gpu

cat > network.yaml << 'END'
data: {train: {type: identity, size: 1024, examples: 100, dimension: io}}
model:
  type: regression
  input: x
  target: y
  layers:
    - dense: {name: l1, output: {h1: 1024}, activation: relu}
    - dense: {name: l2, output: {h2: 1024}, activation: relu}
    - dense: {name: l3, output: {h3: 1024}, activation: relu}
    - dense: {name: l4, output: {io: 1024}}
optimizer: adam
learning_rate: 0.0001
train: {steps: 2, batch_size: 16}
END

# planned ARGUMENT...: prints the bytes that a run of network.yaml needs of the GPU of a process.
planned() {
  MTF_EMULATED_MEMORY=1000000000000 "$mtf_train" network.yaml "$@" run.mode=explain explain.format=json > explained.json ||
    fail "cannot explain $*"
  python3 -c 'import json; print(json.load(open("explained.json"))["memory"]["device"]["bytes"])'
}

# with_memory BYTES COMMAND...: runs a command with this memory on each emulated GPU.
with_memory() {
  env "MTF_EMULATED_MEMORY=$1" "${@:2}"
}

# expect_planned NAME ARGUMENT...: the plan must be enough, one byte less must be refused, and an allocation must
# fail with 3 % less.
expect_planned() {
  local name=$1 plan
  shift
  plan=$(planned "$@") || fail "$name cannot be planned"
  echo "$name: $plan bytes"
  expect_exit 0 with_memory "$plan" "$mtf_train" network.yaml "$@" "run.model_dir=$name"
  grep -q "memory of the machine: .* planned, limit .*checkpoint snapshot" "$name/log.txt" || fail "$name: host memory is not in the log"
  grep -q "memory of the GPU: .* planned, limit .*weights" "$name/log.txt" || fail "$name: the GPU's memory is not in the log"
  expect_exit 1 with_memory $((plan - 1)) "$mtf_train" network.yaml "$@" run.model_dir=refused
  expect_text " B of the GPU's memory and may take "
  expect_text "(free memory of GPU 0 (emulated GPU)"
  expect_text "weights"
  [ ! -e refused ] || fail "$name: a run that was refused has written something"
  expect_exit 1 with_memory $((plan - plan * 3 / 100)) "$mtf_train" network.yaml "$@" run.model_dir=failed run.device_memory_limit=1TB
  expect_text "the run was planned with "
  rm -rf failed
}

set="{type: identity, size: 1024, examples: 40, dimension: io}"
expect_planned one devices=cuda
expect_planned two "mesh=rows:2;cols:1" layout=batch:rows "devices=cuda:0*2"
expect_planned eight mesh=all:8 layout=batch:all "optimizer_layout=io:all;h2:all" "devices=cuda:0*8"
expect_planned evaluation devices=cuda "evaluate.datasets={a: $set}" evaluate.every=1 evaluate.batch_size=32
expect_planned microbatches devices=cuda train.batch_size=64 train.microbatches=4
expect_planned offload devices=cuda offload.slots=host
expect_planned activations devices=cuda offload.activations=host offload.least_bytes=1KB
# A process with a GPU of its own for each position, which mtf-train starts.
export MTF_EMULATED_DEVICES=2
expect_planned processes mesh=all:2 layout=batch:all parameter_layout=io:all devices=cuda
unset MTF_EMULATED_DEVICES

# Processes that share a GPU share its memory.
shared=(mesh=all:2 layout=batch:all cluster.collectives=gloo devices=cuda:0)
plan=$(planned "${shared[@]}" cluster.launcher=none cluster.processes=2 cluster.process=0 cluster.address=localhost:1) ||
  fail "two processes cannot be planned"
expect_exit 1 with_memory $((2 * plan - 2)) "$mtf_launch" -n 2 -- "$mtf_train" network.yaml "${shared[@]}" run.model_dir=refused
expect_text "(free memory of GPU 0 (emulated GPU), shared by 2 processes)"

# Advice is true.
large=(network.yaml devices=cuda train.batch_size=4096)
expect_exit 1 with_memory 200000000 "$mtf_train" "${large[@]}" run.model_dir=refused
cp out advice
grep -q 'GPUs: `mesh: {all: ' advice || { cat out >&2; fail "no advice on more GPUs"; }
for change in train.batch_size train.microbatches; do
  value=$(sed -n "s/.*\`$change: \([0-9]*\)\`.*/\1/p" advice)
  [ -n "$value" ] || { cat advice >&2; fail "no advice on $change"; }
  expect_exit 0 with_memory 200000000 "$mtf_train" "${large[@]}" "$change=$value" run.mode=explain
  grep "GPU of this process" out | tail -n 1 | grep -q " fits" || { cat out >&2; fail "$change: $value does not fit"; }
done

# The limits are the user's if they are given, each for its own memory.
expect_exit 2 "$mtf_train" network.yaml devices=cuda run.device_memory_limit=50MB run.model_dir=refused
expect_text "(run.device_memory_limit)"
expect_exit 2 "$mtf_train" network.yaml devices=cuda run.memory_limit=20MB run.model_dir=refused
expect_text "of the machine's memory and may take 20 MB (run.memory_limit)"

# Without a GPU the plan is that for any GPU.
work_of='import json, sys; d = json.load(open(sys.argv[1])); print(d["work"], d["step"], d["processes"], d["memory"]["position"]["parts"])'
for mesh in all:1 all:4; do
  arguments=(network.yaml devices=cuda "mesh=$mesh" layout=batch:all run.mode=explain)
  MTF_EMULATED_DEVICES=4 "$mtf_train" "${arguments[@]}" explain.format=json > with.json || fail "cannot explain $mesh"
  export MTF_EMULATED_DEVICES=0
  "$mtf_train" "${arguments[@]}" explain.format=json > without.json || fail "cannot explain $mesh without a GPU"
  cmp <(python3 -c "$work_of" with.json) <(python3 -c "$work_of" without.json) || fail "$mesh: another plan without a GPU"
  expect_exit 0 "$mtf_train" "${arguments[@]}"
  expect_text "not checked: there is no GPU here"
  expect_text "note: there is no GPU here (there is no GPU that CUDA can use): the plan is for any GPU"
  expect_exit 1 "$mtf_train" network.yaml devices=cuda run.model_dir=refused
  unset MTF_EMULATED_DEVICES
done
export MTF_CUDA_PLUGIN=/nowhere/libmtf_cuda.so
expect_exit 0 "$mtf_train" network.yaml devices=cuda run.mode=explain run.device_memory_limit=1MB
grep "GPU of this process" out | tail -n 1 | grep -q "does not fit" || { cat out >&2; fail "run.device_memory_limit is ignored"; }
