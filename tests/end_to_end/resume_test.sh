#!/usr/bin/env bash
# Tests that a run which is killed at any moment, and at every named fault point of a save, resumes from a
# complete checkpoint and ends with the losses and weights of an undisturbed run, to the last bit.
# metrics.jsonl has each step exactly once.
source "$2/tests/end_to_end/common.sh"
read -ra data <<< "$(mnist_data)"
run=("$mtf_train" "$source_dir/configs/models/mnist_dropout.yaml" "${data[@]}" vars.hidden=64 train.batch_size=40 train.epochs=null
  learning_rate=null train.log_every=1)
# With 400 examples in batches of 40 an epoch has 10 steps.
save=(checkpoint.every=7 evaluate.every=10)

# expect_same DIRECTORY REFERENCE STEPS: each step must be logged once, and nothing may differ.
expect_same() {
  cmp <(seq "$3") <(sed 's/.*"step":\([0-9]*\),.*/\1/' "$1/metrics.jsonl") > /dev/null || fail "$1/metrics.jsonl does not have each step once"
  expect_exit 0 "$mtf_compare" "$2" "$1"
  expect_text "same: $3 steps"
  [ "$(ls "$1/checkpoints")" = "$(ls "$2/checkpoints")" ] || fail "$1 and $2 keep different checkpoints"
}

steps=60
expect_exit 0 "${run[@]}" "${save[@]}" train.steps=$steps run.model_dir=undisturbed

# The run is killed twice in a row at every fault point of a save or a restart: the second time that it is
# passed, or the first if there is only one.
places=$(MTF_FAULT=none "${run[@]}" train.steps=1 run.model_dir=places 2>&1 | sed -n 's/.*places are //p' | tr -d ',') || true
[ "$(wc -w <<< "$places")" -ge 10 ] || fail "the places of MTF_FAULT are not listed"
killed=0
for place in $places; do
  rm -rf faulty
  for passing in 2 3 1; do
    code=0
    MTF_FAULT=$place@$passing "${run[@]}" "${save[@]}" train.steps=$steps run.model_dir=faulty > out 2>&1 || code=$?
    case $code in
      137) killed=$((killed + 1)) ;;
      0) [ "$passing" != 1 ] || case $place in resume.* | checkpoint.remove | metrics.line) ;; *) fail "$place was never passed" ;; esac ;;
      *) cat out >&2; fail "exit code $code with MTF_FAULT=$place@$passing" ;;
    esac
  done
  expect_exit 0 "${run[@]}" "${save[@]}" train.steps=$steps run.model_dir=faulty
  expect_same faulty undisturbed $steps
  rm -rf other
done
[ "$killed" -ge 20 ] || fail "only $killed processes were killed"

# The last save is interrupted once the checkpoint is complete and before old ones are removed: no step is left to do.
saves=$(((steps + 6) / 7))
rm -rf faulty
expect_exit 137 env MTF_FAULT=checkpoint.parent@$saves "${run[@]}" "${save[@]}" train.steps=$steps run.model_dir=faulty
[ "$(ls faulty/checkpoints)" != "$(ls undisturbed/checkpoints)" ] || fail "the last save had removed old checkpoints"
expect_exit 0 "${run[@]}" "${save[@]}" train.steps=$steps run.model_dir=faulty
expect_same faulty undisturbed $steps

# A change of the configuration is interrupted between saving the old file and writing the new one.
cp -r undisturbed changed
expect_exit 137 env MTF_FAULT=resume.config "${run[@]}" "${save[@]}" train.steps=65 run.model_dir=changed
expect_exit 0 "${run[@]}" "${save[@]}" train.steps=65 run.model_dir=changed
cmp undisturbed/config.yaml changed/config.step-60.yaml || fail "the old configuration was not kept"
expect_exit 0 "${run[@]}" "${save[@]}" train.steps=65 run.model_dir=reference
expect_exit 0 "$mtf_compare" --tensors reference changed

# The run is killed at 20 random moments, over several epochs.
steps=400
begin=${EPOCHREALTIME/./}
expect_exit 0 "${run[@]}" checkpoint.every=3 evaluate.every=100 train.steps=$steps run.model_dir=long
took=$(((${EPOCHREALTIME/./} - begin) / 1000))
kills=0
for ((round = 0; round < 30 && kills < 20; round++)); do
  rm -rf random
  while true; do
    "${run[@]}" checkpoint.every=3 evaluate.every=100 train.steps=$steps run.model_dir=random > out 2>&1 &
    process=$!
    milliseconds=$((RANDOM % (took / 2) + 10))
    sleep "$((milliseconds / 1000)).$(printf %03d $((milliseconds % 1000)))"
    kill -9 $process 2> /dev/null || true
    code=0
    wait $process 2> /dev/null || code=$?
    [ $code -eq 137 ] || break
    kills=$((kills + 1))
  done
  [ $code -eq 0 ] || { cat out >&2; fail "exit code $code after a kill"; }
  expect_same random long $steps
done
echo "$killed processes were killed at named places, $kills at random moments"
[ "$kills" -ge 20 ] || fail "only $kills processes were killed at random moments"
