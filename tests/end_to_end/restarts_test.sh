#!/usr/bin/env bash
# Tests restarts: processes are killed at random moments, one at a time; `mtf-launch --restarts` restarts all
# of them, and they resume from the last checkpoint. The result is that of an undisturbed run, bit for bit.
# The third argument is the number of kills.
source "$2/tests/end_to_end/common.sh"
source "$source_dir/tests/end_to_end/processes.sh"
read -ra data <<< "$(mnist_data)"
wanted=${3:-3} processes=3 steps=600
run=("$mtf_train" "$source_dir/configs/models/mnist_dropout.yaml" "${data[@]}" vars.hidden=48 train.batch_size=48 train.epochs=null train.steps=$steps
  train.log_every=1 evaluate.every=150 checkpoint.every=7 learning_rate=null run.threads=1 mesh=all:3 layout=batch:all parameter_layout=hidden:all
  cluster.connect_timeout=20s cluster.collective_timeout=20s)

# The mesh is the same in one process, so the results must be the same, too.
expect_exit 0 "${run[@]}" run.model_dir=undisturbed

kills=0 round=0
while ((kills < wanted)); do
  ((++round <= wanted + 5)) || fail "only $kills processes were killed in $((round - 1)) runs"
  rm -rf disturbed number.*
  "$mtf_launch" -n $processes --restarts 1000 -- sh -c 'echo $$ > number.$RANK; exec "$@"' sh "${run[@]}" run.model_dir=disturbed > out.0 2>&1 &
  ids=($!)
  while kill -0 "${ids[0]}" 2> /dev/null && ((kills < wanted)); do
    # A random rank is killed between its start and a few saves later.
    sleep "$((RANDOM % 2)).$(printf %03d $((RANDOM % 1000)))"
    victim=$((RANDOM % processes))
    number=$(cat number.$victim 2> /dev/null || true)
    [ -n "$number" ] || continue
    rm -f number.$victim
    ! kill -9 "$number" 2> /dev/null || kills=$((kills + 1))
  done
  all_end 120 0
  # Each step is logged exactly once.
  cmp <(seq $steps) <(sed 's/.*"step":\([0-9]*\),.*/\1/' disturbed/metrics.jsonl) > /dev/null || fail "metrics.jsonl does not have each step once"
  expect_same_run $steps undisturbed disturbed
  [ "$(ls -A disturbed/checkpoints)" = "$(ls -A undisturbed/checkpoints)" ] || fail "other checkpoints are kept: $(ls -A disturbed/checkpoints)"
  ! compgen -G "disturbed/flight.*" || fail "what a failure left is there after the run has ended well"
done
# A checkpoint is damaged where only one rank reads it: the first start fails, the second resumes from the
# previous checkpoint.
more=(train.steps=$((steps + 30)))
expect_exit 0 "${run[@]}" "${more[@]}" run.model_dir=undisturbed
newest=disturbed/checkpoints/$(ls disturbed/checkpoints | tail -n 1)
for file in "$newest"/weights-00003-of-*; do truncate -s -4 "$file" && printf 'lost' >> "$file"; done
expect_exit 0 "$mtf_launch" -n $processes --restarts 1 -- "${run[@]}" "${more[@]}" run.model_dir=disturbed
expect_text '`checkpoint.on_damage=previous`, which goes on from step 595'
expect_text "warning: the checkpoint of step 600 is damaged and set aside as disturbed/checkpoints/damaged-step-00000600: "
expect_same_run $((steps + 30)) undisturbed disturbed

# Damage that one process alone finds while running means begin, whose slices are not those of the weights: no process
# waits in a collective of its own.
cat > means.yaml << 'END'
data: {train: {type: identity, size: 16, examples: 1000, dimension: io}}
model:
  type: regression
  input: x
  target: y
  layers: [dense: {name: l1, output: {hidden: 32}}, dense: {name: l2, output: {io: 16}}]
optimizer: adam
learning_rate: 0.01
mesh: {a: 2}
layout: {batch: a}
parameter_layout: {hidden: a}
optimizer_layout: {hidden: [], io: a}
train: {steps: 4, batch_size: 12, log_every: 1}
run: {threads: 1}
checkpoint: {every: 2, on_damage: previous}
END
pair=("$mtf_launch" -n 2 -- "$mtf_train" means.yaml)
expect_exit 0 "${pair[@]}" run.model_dir=means
cp -r means whole
rm -r whole/checkpoints/step-00000004
python3 - << 'END'
import json
directory = "means/checkpoints/step-00000004/"
variables = json.load(open(directory + "manifest.json"))["variables"]
block = next(v for v in variables if v["name"] == "l2/kernel/adam_v")["blocks"][1]
with open(directory + block["file"], "r+b") as file:
    file.seek(block["offset"] + 5)
    byte = file.read(1)[0]
    file.seek(block["offset"] + 5)
    file.write(bytes([byte ^ 0x55]))
END
expect_exit 0 "${pair[@]}" run.model_dir=means train.steps=8 train.ema_decay=0.99
expect_text "the checkpoint of step 4 is damaged and set aside"
expect_exit 0 "${pair[@]}" run.model_dir=whole train.steps=8 train.ema_decay=0.99
expect_same_run 8 whole means

echo "$kills processes were killed in $round runs: $(grep -c 'start again' out.0 || true) restarts in the last one"
