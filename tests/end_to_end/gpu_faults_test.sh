#!/usr/bin/env bash
# Faults of a run on a GPU. Killed while recorded steps are replayed, it goes on from its checkpoint with the same bits;
# SIGTERM saves; the first value that is not finite is named; what is lost when another program takes the card's memory is
# said, and the run goes on later. Skipped if there is no GPU; memory is taken only where Python has PyTorch.
source "$2/tests/end_to_end/common.sh"
use_gpu
source "$source_dir/tests/end_to_end/device_models.sh"

# wait_for_steps DIRECTORY COUNT: until the run has logged so many steps.
wait_for_steps() {
  local i
  for ((i = 0; i < 600; i++)); do
    [ ! -e "$1/metrics.jsonl" ] || [ "$(grep -c '"loss"' "$1/metrics.jsonl")" -lt "$2" ] || return 0
    sleep 0.05
  done
  fail "$1 has not come to step $2"
}
# stopped SIGNAL DIRECTORY: sends a run the signal after 150 steps; prints its exit code.
stopped() {
  local code=0
  "$mtf_train" "${long[@]}" run.model_dir="$2" > "$2.out" 2>&1 &
  wait_for_steps "$2" 150
  kill "-$1" $!
  wait $! || code=$?
  echo "$code"
}
long=(lm.yaml devices=cuda:0 train.steps=1000 checkpoint.every=100)
expect_exit 0 "$mtf_train" "${long[@]}" run.model_dir=whole

# goes_on SIGNAL CODE: a run that is stopped ends with the code; it goes on to the weights of one that was not.
goes_on() {
  local code
  code=$(stopped "$1" "stopped-$1")
  [ "$code" = "$2" ] || fail "exit code $code after SIG$1"
  expect_exit 0 "$mtf_train" "${long[@]}" run.model_dir="stopped-$1"
  expect_exit 0 "$mtf_compare" "stopped-$1" whole
  expect_text "same"
}
check goes_on KILL 137
check goes_on TERM 143

not_finite() {
  expect_exit 3 "$mtf_train" lm.yaml devices=cuda:0 train.steps=20 learning_rate=1e38 optimizer=sgd run.model_dir=nan
  expect_text "the first value that is not finite is "
}
check not_finite

# hold MEBIBYTES: a program takes the card's memory but for so much, and sets $holder.
hold() {
  cat > hold.py << 'PYTHON'
import sys, time, torch
free = torch.cuda.mem_get_info()[0]
held = torch.empty(free - int(sys.argv[1]) * 2**20, dtype=torch.uint8, device="cuda")
open("held", "w").close()
time.sleep(60)
PYTHON
  rm -f held
  python3 hold.py "$1" > hold.out 2>&1 &
  holder=$!
  for ((i = 0; i < 300; i++)); do [ ! -e held ] || return 0; sleep 0.1; done
  fail "$(cat hold.out)"
}
let_go() {
  kill $holder
  wait $holder || true
}
# A GPU without memory for its context; with memory for less than the plan; and one whose memory goes during the run,
# before an evaluation of many rows. Each is said, and the last run goes on from its checkpoint.
taken() {
  local run code=0 many=("evaluate={every: 8000, batch_size: 16384, datasets: {dev: {type: text, path: words.en}}}")
  python3 -c 'import torch' 2> /dev/null || { echo "no PyTorch: no memory is taken"; return 0; }
  hold 100
  expect_exit 1 "$mtf_train" lm.yaml devices=cuda:0 train.steps=10 run.model_dir=none
  expect_text "GPU 0 has no memory left for another program"
  let_go
  hold 1500
  expect_exit 1 "$mtf_train" lm.yaml devices=cuda:0 train.steps=10 model.layer_defaults.DenseReluDense.hidden_size=8000000 run.model_dir=none
  expect_text "of the GPU's memory"
  let_go
  "$mtf_train" lm.yaml devices=cuda:0 train.steps=8000 checkpoint.every=1000 "${many[@]}" run.model_dir=evaluated > evaluated.out 2>&1 &
  run=$!
  wait_for_steps evaluated 300
  hold 100
  wait $run || code=$?
  let_go
  tail -n 3 evaluated.out
  [ $code = 1 ] || fail "exit code $code of a run whose memory was taken: $(tail -n 3 evaluated.out)"
  grep -q "out of memory" evaluated.out || fail "$(tail -n 3 evaluated.out)"
  expect_exit 0 "$mtf_train" lm.yaml devices=cuda:0 train.steps=8000 run.model_dir=evaluated
}
check taken
report_failures
echo "gpu_faults_test: passed"
