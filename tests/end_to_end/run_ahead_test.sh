#!/usr/bin/env bash
# Tests runs on an emulated GPU that begins each step before the host has looked at the one before, with transfers
# that run as late and as early as their events allow: losses, weights, messages and exit codes are those of a
# run that waits for each step.
source "$2/tests/end_to_end/common.sh"
use_emulated_gpu
read -ra data <<< "$(mnist_data)"
program=("$mtf_train" "$source_dir/configs/models/mnist_dropout.yaml")
mnist=("${data[@]}" vars.hidden=32 train.batch_size=40 train.epochs=null
  learning_rate=0.01 train.log_every=1)
steps_once() { cmp <(seq "$2") <(sed 's/.*"step":\([0-9]*\),.*/\1/' "$1/metrics.jsonl") > /dev/null || fail "$1 does not have each step once"; }
last_step() { ls "$1/checkpoints" | tail -n 1; }

# Examples 9 and 10 of 24 overflow in the first layer: step 5 of those with 2 examples is not finite.
python3 - << 'END'
with open("table.csv", "w") as f:
    f.write("a,b,price\n")
    for i in range(24):
        f.write(f"{3e38 if i in (8, 9) else i / 10},{i % 3},{i / 7}\n")
END
cat > table.yaml << 'END'
data: {train: {type: table, path: table.csv, targets: price}, shuffle: false}
model: {type: regression, input: x, layers: [{dense: {output: {hidden: 16}, activation: relu}}, {dense: {output: {targets: 1}}}]}
optimizer: adam
learning_rate: 0.01
train: {steps: 9, batch_size: 2, log_every: 1}
END
table=("$mtf_train" table.yaml)
expect_exit 0 "${table[@]}" train.on_divergence=skip run.model_dir=skip-cpu
grep -o 'diverged in step.*infinite of 32 values, the others from [^ ]*' out | sed 's,operation .* in layer,operation in layer,' > skip-cpu.text
expect_exit 3 "${table[@]}" checkpoint.every=4 run.model_dir=stop-cpu
grep -o 'diverged in step 5: the loss.*gradients NaN' out > stop-cpu.text

for order in late early; do
  export MTF_EMULATED_STREAMS=$order
  mkdir $order
  cd $order
  cp ../table.* .

  # Evaluations and checkpoints between the steps do not change anything, whether the run is killed or not.
  for devices in cuda:0 cuda:0*4; do
    layout=()
    [ "$devices" = cuda:0 ] || layout=("$source_dir/configs/layouts/fsdp_4.yaml")
    run=("${program[@]}" "${layout[@]}" "${mnist[@]}" devices="$devices" train.steps=14)
    expect_exit 0 "${run[@]}" evaluate=null run.model_dir=plain
    expect_exit 0 "${run[@]}" evaluate.every=5 checkpoint.every=3 run.model_dir=saved
    expect_exit 0 "$mtf_compare" --tensors plain saved
    steps_once saved 14
    expect_exit 137 env MTF_FAULT=save.done@3 "${run[@]}" evaluate.every=5 checkpoint.every=3 run.model_dir=killed
    expect_exit 0 "${run[@]}" evaluate.every=5 checkpoint.every=3 run.model_dir=killed
    expect_text "continues after step 9"
    expect_exit 0 "$mtf_compare" --tensors plain killed
    steps_once killed 14
    rm -rf plain saved killed
  done

  # A step that is not finite is named as on the processor, and the steps after it are not lost.
  expect_exit 0 "${table[@]}" train.on_divergence=skip run.model_dir=skip devices=cuda:0
  expect_text "training diverged in step 5: the loss is infinite"
  grep -o 'diverged in step.*infinite of 32 values, the others from [^ ]*' out | sed 's,operation .* in layer,operation in layer,' > skip.text
  cmp skip.text ../skip-cpu.text || fail "other messages on the GPU"
  steps_once skip 9
  expect_exit 0 "$mtf_compare" --tensors --tolerance 1e-4 ../skip-cpu skip
  expect_exit 3 "${table[@]}" checkpoint.every=4 run.model_dir=stop devices=cuda:0
  grep -o 'diverged in step 5: the loss.*gradients NaN' out > stop.text
  cmp stop.text ../stop-cpu.text || fail "another message on the GPU"
  [ "$(last_step stop)" = step-00000004 ] || fail "the last good checkpoint is gone"
  steps_once stop 4
  expect_exit 3 "${table[@]}" train.on_divergence=restore checkpoint.every=3 run.model_dir=restore devices=cuda:0
  expect_text "goes back to step 3, with 0.5 times the learning rate"

  # A signal ends the run after the step in hand, which is saved.
  "${program[@]}" "${mnist[@]}" devices=cuda:0 train.steps=100000 run.model_dir=signal > out 2>&1 &
  process=$!
  for _ in $(seq 200); do
    [ ! -s signal/metrics.jsonl ] || [ "$(wc -l < signal/metrics.jsonl)" -lt 3 ] || break
    sleep 0.1
  done
  kill -TERM $process
  code=0
  wait $process || code=$?
  [ $code -eq 143 ] || { cat out >&2; fail "exit code $code after SIGTERM"; }
  step=$(tail -n 1 signal/metrics.jsonl | sed 's/.*"step":\([0-9]*\),.*/\1/')
  [ "$(last_step signal)" = "$(printf 'step-%08d' "$step")" ] || fail "the last step, $step, was not saved"
  expect_exit 0 "$mtf_train" signal/config.yaml train.steps=$((step + 2)) run.allow_change=[train.steps]
  expect_text "continues after step $step"
  steps_once signal $((step + 2))
  cd ..
done
