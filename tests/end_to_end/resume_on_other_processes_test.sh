#!/usr/bin/env bash
# Tests that other numbers of processes and a single process resume from a checkpoint that four processes have
# saved together, with the same stream of examples and losses equal up to rounding, or equal bits on the same
# mesh; and that an optimizer that begins in the middle of a run counts its own steps.
source "$2/tests/end_to_end/common.sh"
source "$source_dir/tests/end_to_end/processes.sh"
read -ra data <<< "$(mnist_data)"
options=("${data[@]}" vars.hidden=48 train.batch_size=48 train.epochs=null train.log_every=1 evaluate.every=10 "optimizer={type: adam, clip_norm: 1}"
  learning_rate=0.0001 run.threads=1)
run=("$mtf_train" "$source_dir/configs/models/mnist_dropout.yaml" "${options[@]}")
square=("mesh=rows:2;cols:2" "layout=batch:rows;hidden:cols" optimizer_layout=hidden:rows)
examples() { sed 's/.*"examples":\([0-9]*\),.*/\1/' "$1/metrics.jsonl"; }

# An epoch has 8.3 steps, so the save at step 10 is in the second and the end at step 20 in the third epoch.
expect_exit 0 "${run[@]}" train.steps=20 run.model_dir=whole
losses whole > whole.losses
expect_exit 0 "${run[@]}" "${square[@]}" train.steps=20 run.model_dir=whole_square
expect_exit 0 timeout 60 "$mtf_launch" -n 4 -- "${run[@]}" "${square[@]}" train.steps=10 run.model_dir=square
# A part of a variable is written once, by the first process that has it: weights are split over cols,
# statistics over rows.
[ "$(cd square/checkpoints/step-00000010 && echo *)" = "manifest.json optimizer-00001-of-00004.safetensors optimizer-00003-of-00004.safetensors \
weights-00001-of-00004.safetensors weights-00002-of-00004.safetensors" ] || fail "the processes have written other parts: $(ls square/checkpoints/step-00000010)"

# goes_on NAME PROCESSES ARGUMENT...: resumes from the checkpoint.
goes_on() {
  local name=$1 processes=$2
  shift 2
  cp -r square "$name"
  expect_exit 0 timeout 60 "$mtf_launch" -n "$processes" -- "$mtf_train" "$name/config.yaml" train.steps=20 "$@"
  expect_text "continues after step 10 of $name"
  losses "$name" > losses
  expect_close losses whole.losses 1e-5
  cmp <(examples whole) <(examples "$name") || fail "another stream of examples on $name"
}
goes_on one 1 mesh=null layout=null optimizer_layout=null
goes_on eight_positions 1 mesh=all:8 layout=batch:all optimizer_layout=hidden:all
goes_on two 2 mesh=all:2 layout=batch:all optimizer_layout=null
goes_on three 3 mesh=all:3 layout=batch:all optimizer_layout=null parameter_layout=hidden:all
goes_on three_with_two 3 "mesh=rows:3;cols:2" optimizer_layout=null
for processes in 1 2 4; do
  goes_on square_on_$processes $processes
  expect_same_run 20 whole_square square_on_$processes
done
# Four processes resume from a checkpoint that three have saved.
expect_exit 0 timeout 60 "$mtf_launch" -n 4 -- "$mtf_train" three_with_two/config.yaml train.steps=22 "${square[@]}"
expect_text "continues after step 20 of three_with_two, saved on rows=3 cols=2"

# A missing part is named.
cp -r square broken
rm broken/checkpoints/step-00000010/weights-00002-of-00004.safetensors
expect_exit 1 timeout 60 "$mtf_launch" -n 2 -- "$mtf_train" broken/config.yaml train.steps=20
expect_text "weights-00002-of-00004.safetensors"

# Slots and running means that begin late count their steps from there: after steps of SGD that change nothing, on the same
# batch each time, Adam goes on as it would have begun. So it does after a kill and further starts, on another mesh, with two
# processes and with a parameter server.
batch=("$mtf_train" "$source_dir/configs/models/mnist.yaml" "${data[@]}" vars.hidden=16 train.batch_size=400 data.shuffle=false
  train.epochs=null train.log_every=1 evaluate.every=0 run.threads=1 checkpoint.every=2)
adam=("${batch[@]}" optimizer=adam learning_rate=0.01 train.ema_decay=0.9 run.allow_change=optimizer.type)
rows=(mesh=rows:2 layout=batch:rows)
expect_exit 0 "${adam[@]}" train.steps=6 run.model_dir=begun
expect_exit 0 "${adam[@]}" "${rows[@]}" train.steps=6 run.model_dir=begun_rows
expect_exit 0 "${batch[@]}" optimizer=sgd learning_rate=0.0 train.steps=4 run.model_dir=still
last_losses() { losses "$1" | tail -n 6; }

cp -r still killed
expect_exit 137 env MTF_FAULT=metrics.line@4 "${adam[@]}" train.steps=10 run.model_dir=killed
expect_exit 0 "${adam[@]}" train.steps=10 run.model_dir=killed
for part in weights optimizer averages; do
  cmp {begun/checkpoints/step-00000006,killed/checkpoints/step-00000010}/$part.safetensors || fail "Adam begins late with other $part"
done
grep -q '"slot_begin/layer_1/kernel/adam_v":4.0[,}]' killed/checkpoints/step-00000010/manifest.json || fail "the manifest lacks where slots begin"
# An older checkpoint in place of a damaged one: Adam begins two steps earlier.
cp -r still damaged
truncate -s -4 damaged/checkpoints/step-00000004/weights.safetensors
printf 'lost' >> damaged/checkpoints/step-00000004/weights.safetensors
expect_exit 0 "${adam[@]}" train.steps=8 run.model_dir=damaged checkpoint.on_damage=previous
expect_text "continues after step 2 of damaged"
cmp {begun/checkpoints/step-00000006,damaged/checkpoints/step-00000008}/weights.safetensors || fail "Adam begins late after a damaged checkpoint"

# goes_on_late NAME COMMAND...: goes on with Adam in two starts.
goes_on_late() {
  local name=$1 steps
  shift
  cp -r still "$name"
  for steps in 7 10; do expect_exit 0 timeout 60 "$@" train.steps=$steps run.model_dir="$name"; done
}
goes_on_late late_mesh "${adam[@]}" mesh=all:4 layout=batch:all optimizer_layout=hidden:all
expect_close <(last_losses late_mesh) <(losses begun) 1e-5
goes_on_late late_processes "$mtf_launch" -n 2 -- "${adam[@]}" "${rows[@]}"
cmp <(last_losses late_processes) <(losses begun_rows) || fail "two processes begin Adam late with other losses"
goes_on_late late_server "$mtf_launch" --job ps=1 --job worker=2 -- "${adam[@]}" "${rows[@]}" "train.strategy={type: parameter_server}"
cmp <(last_losses late_server) <(losses begun_rows) || fail "a parameter server begins Adam late with other losses"
