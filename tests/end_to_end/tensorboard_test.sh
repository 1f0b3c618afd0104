#!/usr/bin/env bash
# Tests that TensorBoard's own readers find each number of metrics.jsonl and evaluate.jsonl exactly once, also
# after a run was killed and resumed, and that the Python package safetensors reads the files of runs.
source "$2/tests/end_to_end/common.sh"
use_python
read -ra data <<< "$(mnist_data)"
run=("$mtf_train" "$source_dir/configs/models/mnist.yaml" "${data[@]}" learning_rate=null train.epochs=null train.steps=20
  train.batch_size=40 train.log_every=1 evaluate.every=5 checkpoint.every=6)
read_scalars() {
  expect_exit 0 "$python" "$source_dir/tests/end_to_end/read_scalars.py" "$1"
  expect_text "points are the same"
}

expect_exit 0 "${run[@]}" run.model_dir=run
read_scalars run
[ "$(ls run | grep -c '^events.out.tfevents\.[0-9]*\..*\.[0-9]*\.0$')" = 1 ] || fail "the event file has another name: $(ls run)"

# The run is killed between two lines, while it cuts its files, and once more: at the end each step is there
# once, and in between nothing is wrong.
expect_exit 137 env MTF_FAULT=metrics.line@17 "${run[@]}" run.model_dir=killed
read_scalars killed
for passing in 1 2 3; do
  expect_exit 137 env MTF_FAULT=resume.cut@$passing "${run[@]}" run.model_dir=killed
done
expect_exit 137 env MTF_FAULT=metrics.line@9 "${run[@]}" run.model_dir=killed
read_scalars killed
expect_exit 0 "${run[@]}" run.model_dir=killed
read_scalars killed
cmp <(seq 20) <(sed 's/.*"step":\([0-9]*\),.*/\1/' killed/metrics.jsonl) || fail "not each step is there once"
paste <(losses run) <(losses killed) | awk '$1 != $2 { exit 1 }' || fail "the losses differ"

# The run is stopped by a signal within an evaluation, which the next process repeats; that one is killed, so
# the third process repeats it again. The curves have it once.
evaluating=("${run[@]}" train.steps=60 evaluate.every=1 evaluate.batch_size=1 checkpoint.every=1000)
for ((i = 0; ; i++)); do
  [ "$i" -lt 50 ] || fail "no signal has come within an evaluation"
  rm -rf stopped
  "${evaluating[@]}" run.model_dir=stopped > out 2>&1 &
  process=$!
  until [ -s stopped/evaluate.jsonl ]; do sleep 0.01; done
  sleep 0.0$((i % 10))
  kill -TERM $process
  wait $process || true
  ! grep -q '"evaluation_pending":1' stopped/checkpoints/*/manifest.json || break
done
expect_exit 137 env MTF_FAULT=checkpoint.begin "${evaluating[@]}" run.model_dir=stopped
read_scalars stopped
expect_exit 0 "${evaluating[@]}" run.model_dir=stopped
read_scalars stopped
[ "$(sed 's/.*"step":\([0-9]*\),.*/\1/' stopped/evaluate.jsonl | uniq -d)" = "" ] || fail "an evaluation is there twice"

# An incomplete end is cut off.
expect_exit 137 env MTF_FAULT=metrics.line@17 "${run[@]}" run.model_dir=torn
for file in torn/metrics.jsonl torn/events.out.tfevents.*; do truncate -s -5 "$file"; done
expect_exit 0 "${run[@]}" run.model_dir=torn
read_scalars torn

expect_exit 0 "$mtf_train" "$source_dir/configs/models/toy.yaml" vars.io_size=6 vars.hidden_size=12 run.mode=trace \
  "trace.input=$source_dir/tests/golden/02_toy_sgd/tensors.safetensors" trace.output=trace.safetensors trace.steps=2
expect_exit 0 "$python" "$source_dir/tests/end_to_end/read_safetensors.py" trace.safetensors run/checkpoints/*/*.safetensors
expect_text "run/checkpoints/step-00000020/"
