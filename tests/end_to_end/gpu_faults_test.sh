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

# Another program holds all but 300 MiB of the card when an evaluation begins, which needs more.
taken() {
  local hog evaluated=(lm.yaml devices=cuda:0 train.steps=400 train.log_every=1)
  python3 -c 'import torch' 2> /dev/null || { echo "no PyTorch: no memory is taken"; return 0; }
  cat > hog.py << 'PYTHON'
import time, torch
free = torch.cuda.mem_get_info()[0]
held = torch.empty(free - 300 * 2**20, dtype=torch.uint8, device="cuda")
open("held", "w").close()
time.sleep(60)
PYTHON
  python3 hog.py &
  hog=$!
  for ((i = 0; i < 300; i++)); do [ ! -e held ] || break; sleep 0.1; done
  expect_exit 1 "$mtf_train" "${evaluated[@]}" run.model_dir=little
  expect_text "memory"
  cat out | tail -n 3
  kill $hog
  wait $hog || true
  expect_exit 0 "$mtf_train" "${evaluated[@]}" run.model_dir=little
}
check taken
report_failures
echo "gpu_faults_test: passed"
