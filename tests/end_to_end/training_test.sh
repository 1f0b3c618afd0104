#!/usr/bin/env bash
# Tests that training learns, counts examples and epochs exactly, is reproducible, and stops at its limits and
# when it diverges.
source "$2/tests/end_to_end/common.sh"
read -ra data <<< "$(mnist_data)"
mnist=$source_dir/configs/models/mnist.yaml

# 2 epochs of 400 examples in batches of 40 are 20 steps, too few for the warm-up of mnist.yaml. Each epoch
# ends with an evaluation.
expect_exit 0 "$mtf_train" "$mnist" "${data[@]}" learning_rate=null train.epochs=2 train.batch_size=40 train.log_every=5 run.model_dir=epochs
expect_text "finished after train.epochs = 2: 20 steps"
[ "$(grep -o '"step":[0-9]*' epochs/metrics.jsonl | paste -sd' ')" = '"step":1 "step":5 "step":10 "step":15 "step":20' ] ||
  fail "metrics.jsonl has other steps"
[ "$(grep -c '"dataset":"test"' epochs/evaluate.jsonl)" = 2 ] || fail "evaluate.jsonl does not have two lines"
grep -q '"examples":150' epochs/evaluate.jsonl || fail "not every test example was counted"
accuracy=$(sed -n '$s/.*"accuracy":\([0-9.]*\).*/\1/p' epochs/evaluate.jsonl)
awk -v a="$accuracy" 'BEGIN { exit !(a > 0.99) }' || fail "two kinds of images were told apart with accuracy $accuracy only"
for key in step epoch examples time loss learning_rate grad_norm step_ms examples_per_second model_flops_per_second memory_bytes; do
  [ "$(grep -c "\"$key\":" epochs/metrics.jsonl)" = 5 ] || fail "metrics.jsonl lacks $key"
done

# The configuration in the run's directory repeats the run to the last bit; the finished run itself has
# nothing left to do.
expect_exit 0 "$mtf_train" epochs/config.yaml run.model_dir=again run.threads=3
losses epochs > a && losses again > b && cmp a b || fail "the repeated run has other losses"
expect_exit 0 "$mtf_train" epochs/config.yaml
expect_text "nothing is left to do after train.epochs = 2"
cmp epochs/config.yaml again/config.yaml > /dev/null || sed 's/threads: 3/threads: auto/' again/config.yaml | cmp - epochs/config.yaml

# Each example counts once however the data are divided into batches.
for size in 7 150 200; do
  expect_exit 0 "$mtf_train" epochs/config.yaml run.model_dir=batch$size evaluate.batch_size=$size train.epochs=1
  sed -n '$s/.*"loss":\([^,]*\),.*/\1/p' batch$size/evaluate.jsonl > batch$size.loss
  expect_close batch$size.loss batch7.loss 1e-5
done

# The first limit that is reached ends the run.
toy=$source_dir/configs/models/toy.yaml
expect_exit 0 "$mtf_train" "$toy" train.steps=1000000000 train.time=1s run.model_dir=time
expect_text "finished after train.time = 1.0 s"
expect_exit 0 "$mtf_train" "$toy" train.steps=5 train.epochs=1 run.model_dir=steps
expect_text "finished after train.steps = 5: 5 steps"

# A loss that is not finite gives exit code 3, the step, and the operation in which it began.
expect_exit 3 "$mtf_train" "$toy" learning_rate=1.0e30 run.model_dir=diverged
expect_text "step "
expect_text "the loss is"
grep -q "the loss is" diverged/log.txt || fail "log.txt does not say why the run ended"

# Labels for which the model has no class are reported.
expect_exit 1 "$mtf_train" "$mnist" "${data[@]}" model.layers.layer_2.output.classes=1 run.model_dir=labels
expect_text "label"
[ ! -e labels ] || fail "a run with wrong labels has written something"

# Clipping, microbatches, recomputation and other optimizers give the same on a mesh and on one position.
for options in "optimizer={type: adam, clip_norm: 0.5} learning_rate=0.001 train.microbatches=2" \
  "optimizer={type: momentum, weight_decay: 0.01} learning_rate=0.01" \
  "optimizer=adafactor train.microbatches=4 train.recompute=dense optimizer.clip_norm=0.1"; do
  IFS='|' read -ra words <<< "$(sed 's/ \([a-z_.]*=\)/|\1/g' <<< "$options")"
  rm -rf one mesh
  common=("$toy" "${words[@]}" train.steps=20 train.log_every=1)
  expect_exit 0 "$mtf_train" "${common[@]}" run.model_dir=one
  expect_exit 0 "$mtf_train" "${common[@]}" run.model_dir=mesh "mesh=rows:2;cols:2" "layout=batch:rows;hidden_odd:cols" \
    run.check_replicas=true
  losses one > a && losses mesh > b
  expect_close b a 1e-5
done
