#!/usr/bin/env bash
# Tests run.instruction_set: runs train and resume with each instruction set of the machine, processes with
# unlike ones refuse each other and name the key, and processes with the same one have the bits of one process.
source "$2/tests/end_to_end/common.sh"
source "$source_dir/tests/end_to_end/processes.sh"
read -ra data <<< "$(mnist_data)"
run=("$mtf_train" "$source_dir/configs/models/mnist_dropout.yaml" "${data[@]}" vars.hidden=48 train.batch_size=40
  train.epochs=null learning_rate=null train.log_every=1 run.threads=1)

# The processor's line names the best set, the next one those below it.
expect_exit 0 "$mtf_train" --list-devices
sets=$(head -n 2 out | grep -ow 'avx512\|avx2\|portable' | tr '\n' ' ')
best=${sets%% *}
case $sets in "avx512 avx2 portable " | "avx2 portable " | "portable ") ;; *) fail "--list-devices: $sets" ;; esac

for set in $sets; do
  # A run that is interrupted has the bits of one that is not, and the checkpoint knows the set.
  expect_exit 0 "${run[@]}" run.instruction_set=$set train.steps=12 run.model_dir=$set
  expect_exit 0 "${run[@]}" run.instruction_set=$set train.steps=7 run.model_dir=$set-resumed
  grep -qF "\"instruction_set\": \"$set\"" $set-resumed/checkpoints/*/manifest.json || fail "the checkpoint does not name $set"
  expect_exit 0 "$mtf_train" $set-resumed/config.yaml train.steps=12
  ! grep -qF "equal up to rounding" out || fail "$set: resumed with another set"
  expect_same_run 12 $set $set-resumed
  expect_exit 0 "$mtf_compare" --tolerance 1e-3 $best $set
done
expect_exit 0 "${run[@]}" train.steps=12 run.model_dir=auto
expect_same_run 12 $best auto

# What the machine lacks is an error at the key.
for set in avx512 avx2; do
  [[ " $sets" != *" $set "* ]] || continue
  expect_exit 2 "${run[@]}" run.instruction_set=$set train.steps=1 run.model_dir=lacking
  expect_text "\`run.instruction_set: $set\`: this machine lacks it; \`auto\`, "
  [ ! -e lacking ] || fail "something was written"
done

# start_two FIRST SECOND DIRECTORY [ARGUMENT...]: starts two processes with these sets.
start_two() {
  port=$(free_ports 1)
  local first=$1 second=$2 directory=$3
  shift 3
  start_rank 0 2 "${run[@]}" mesh=all:2 layout=batch:all train.steps=12 run.model_dir="$directory" run.instruction_set="$first" "$@"
  start_rank 1 2 "${run[@]}" mesh=all:2 layout=batch:all train.steps=12 run.model_dir="$directory" run.instruction_set="$second" "$@"
}

# The set in use counts, not the words by which it was chosen.
expect_exit 0 "${run[@]}" mesh=all:2 layout=batch:all train.steps=12 run.model_dir=one
start_two auto "$best" two
all_end 60 0 0
expect_same_run 12 one two

if [ "$best" = portable ]; then
  echo "this machine has one instruction set: unlike processes are not tested"
  exit
fi
start_two "$best" portable unlike
all_end 60 2 2
for rank in 0 1; do
  said $rank "differs from"
  said $rank "in instruction set of the kernels (\`run.instruction_set\` gives all processes the same one): portable instead of $best"
done
start_two portable portable like
all_end 60 0 0
expect_exit 0 "${run[@]}" mesh=all:2 layout=batch:all train.steps=12 run.model_dir=one-portable run.instruction_set=portable
expect_same_run 12 one-portable like
# The sets do differ in bits.
! "$mtf_compare" one one-portable > out 2>&1 || fail "portable has the bits of $best"

# A run that goes on with another set says so.
expect_exit 0 "$mtf_train" portable-resumed/config.yaml train.steps=14 run.instruction_set="$best"
expect_text "saved with portable (here $best: equal up to rounding)"
