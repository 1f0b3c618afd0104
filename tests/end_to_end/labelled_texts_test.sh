#!/usr/bin/env bash
# Tests fine-tuning on labelled texts: classes of texts, numbers for pairs of texts, tags of words and answers to questions
# are trained and evaluated; metrics, predicted texts and metrics of commands are the same on every layout and number of
# processes.
source "$2/tests/end_to_end/common.sh"
source "$source_dir/tests/end_to_end/processes.sh"
source "$source_dir/tests/end_to_end/labelled_tasks.sh"

# last RUN METRIC: a metric of the last evaluation.
last() { python3 -c 'import json,sys; print([json.loads(l) for l in open(sys.argv[1] + "/evaluate.jsonl")][-1][sys.argv[2]])' "$1" "$2"; }
# same A B: two lines of an evaluation are equal up to rounding, metrics that are counted exactly.
same() {
  python3 - "$1" "$2" << 'END' || fail "$2 differs from $1"
import json, sys
a, b = (json.loads(next(line for line in open(path) if line.startswith("{"))) for path in sys.argv[1:])
assert a.keys() == b.keys()
for name in a.keys() - {"seconds"}:
    rounded = name in ("loss", "pearson", "spearman")
    assert a[name] == b[name] or (rounded and abs(a[name] - b[name]) <= 1e-5 * max(1, abs(a[name]))), (name, a[name], b[name])
END
}

for task in classes numbers tags answers; do
  expect_exit 0 "$mtf_train" $task.yaml run.model_dir=$task
  expect_exit 0 "$mtf_train" $task/config.yaml run.mode=evaluate evaluate.output=texts-$task
  grep "^{" out > $task.line
  cmp texts-$task/evaluate/step-00000020/dev.txt $task/evaluate/step-00000020/dev.txt || fail "$task: other texts"
  [ -s $task/evaluate/step-00000010/dev.txt ] || fail "$task: no texts of step 10"
  grep -q "dev: .*(.*)" $task/log.txt || fail "$task: the log shows no example"
  for layout in "b1:2 batch:b1" "b1:2;b2:2 batch:b1;heads:b2;d_ff:b2" "b1:8 batch:b1"; do
    expect_exit 0 "$mtf_train" $task/config.yaml run.mode=evaluate "mesh=${layout% *}" "layout=${layout#* }"
    same $task.line out
  done
  port=$(free_ports 1)
  for rank in 0 1; do
    start_rank $rank 2 "$mtf_train" $task/config.yaml run.mode=evaluate mesh=b1:2 layout=batch:b1
  done
  all_end 60 0 0
  same $task.line out.0
done

# What the program computes agrees with the predictions as lines.
[ "$(last classes accuracy)" = "$(last classes command)" ] || fail "accuracy is not that of the lines"
[ "$(last classes accuracy)" = "$(last classes f1_micro)" ] || fail "f1_micro is not the accuracy"
[ "$(wc -l < tags/evaluate/step-00000020/dev.txt)" = 45 ] || fail "not a line for each sentence"
grep -qP '^0-0\t' answers/evaluate/step-00000020/dev.txt || fail "no answer to the first question"

# A metric of a command ends a run and keeps a checkpoint.
expect_exit 0 "$mtf_train" classes.yaml run.model_dir=early train.steps=400 evaluate.every=5 \
  'train.patience={metric: dev/command, evaluations: 2}' 'checkpoint.keep_best={metric: dev/command}' learning_rate=1e-9
grep -q "train.patience: 2 evaluations in a row without a better dev/command" early/log.txt || fail "the run goes on"

# metric COMMAND: an argument that has dev measured by the command. The run evaluates after step 10 of 20.
metric() { echo "evaluate.datasets.dev.metrics=[{name: command, command: '$1'}]"; }
# expect_postponed RUN: the last checkpoint is that of step 10, whose evaluation is pending.
expect_postponed() {
  python3 - "$1" << 'END' || fail "$1: no checkpoint of step 10 with a pending evaluation"
import glob, json, sys
manifest = json.load(open(max(glob.glob(sys.argv[1] + "/checkpoints/step-*/manifest.json"))))
assert manifest["step"] == 10 and manifest["state"]["evaluation_pending"] == 1, manifest["state"]
END
}

# A command that fails ends the run after its step was saved; the run goes on with the evaluation of this step.
expect_exit 1 "$mtf_train" classes.yaml run.model_dir=fails "$(metric 'exit 3')"
expect_text "\`exit 3\` ended with exit code 3"
expect_postponed fails
expect_exit 1 "$mtf_train" fails/config.yaml "$(metric 'echo nan')"
expect_text "printed no number in its last line"
expect_postponed fails
expect_exit 0 "$mtf_train" fails/config.yaml "$(metric 'echo 0.5')"
[ "$(grep -c '"command":0.5' fails/evaluate.jsonl)" = 2 ] || fail "not an evaluation of both steps"

# With several processes a command takes longer than they wait for each other, and all know of its failure.
port=$(free_ports 1)
for rank in 0 1; do
  start_rank $rank 2 "$mtf_train" classes.yaml run.model_dir=slow mesh=b1:2 layout=batch:b1 train.steps=10 \
    cluster.collective_timeout=1s "$(metric 'sleep 2.5; echo 0.5')"
done
all_end 60 0 0
[ "$(last slow command)" = 0.5 ] || fail "no metric of a slow command"
port=$(free_ports 1)
for rank in 0 1; do
  start_rank $rank 2 "$mtf_train" classes.yaml run.model_dir=fails-2 mesh=b1:2 layout=batch:b1 "$(metric 'exit 3')"
done
all_end 60 1 1
expect_postponed fails-2

# A signal of a terminal, which goes to the whole process group, ends a command and postpones the evaluation.
for signal in INT:130 TERM:143; do
  setsid "$mtf_train" classes.yaml run.model_dir=stopped-$signal "$(metric 'touch begun; sleep 200 | cat; touch went_on')" > out.0 2>&1 &
  ids[0]=$!
  wait_for [ -e begun ]
  kill -s "${signal%:*}" -- -"${ids[0]}"
  all_end 60 "${signal#*:}"
  rm begun
  expect_postponed stopped-$signal
done
port=$(free_ports 1)
for rank in 0 1; do
  start_rank $rank 2 "$mtf_train" classes.yaml run.model_dir=stopped-2 mesh=b1:2 layout=batch:b1 "$(metric 'touch begun; sleep 200')"
done
wait_for [ -e begun ]
kill -TERM "${ids[1]}"
all_end 60 143 143
expect_postponed stopped-2
[ ! -e went_on ] || fail "a command went on"

# What cannot be measured is one message.
expect_exit 2 "$mtf_train" classes.yaml run.model_dir=wrong 'evaluate.datasets.dev.metrics=[entity_f1]'
expect_text "the model has no metric \`entity_f1\`"
expect_exit 2 "$mtf_train" classes.yaml run.model_dir=wrong 'evaluate.datasets.dev.metrics=[{name: accuracy, command: "echo 1"}]'
expect_text "the name \`accuracy\` of a command is taken"
expect_exit 1 "$mtf_train" classes/config.yaml run.mode=evaluate 'evaluate.datasets.dev.metrics=[{command: "echo none"}]'
expect_text "printed no number in its last line"
expect_exit 1 "$mtf_train" classes/config.yaml run.mode=evaluate 'evaluate.datasets.dev.metrics=[{command: "exit 3"}]'
expect_text "ended with exit code 3"

# An evaluation follows a run that goes on, from before its first checkpoint to its last one.
port=$(free_ports 1)
for rank in 0 1; do
  start_rank $rank 2 "$mtf_train" classes.yaml run.model_dir=followed run.mode=evaluate evaluate.follow=true \
    train.steps=12 evaluate.follow_timeout=60s mesh=b1:2 layout=batch:b1 "evaluate.output=followed-{step}"
done
expect_exit 0 "$mtf_train" classes.yaml run.model_dir=followed train.steps=12 checkpoint.every=4 evaluate.every=4 checkpoint.keep_last=9
all_end 60 0 0
grep '"step":' out.0 | tail -n 1 > followed.line
same followed.line <(tail -n 1 followed/evaluate.jsonl)
[ -s followed-12/evaluate/step-00000012/dev.txt ] || fail "no texts of the last checkpoint"
# Without new checkpoints it ends in time.
expect_exit 0 "$mtf_train" classes.yaml run.model_dir=followed run.mode=evaluate evaluate.follow=true train.steps=100 \
  evaluate.follow_timeout=1s evaluate.checkpoint=all
[ "$(grep -c '"step":' out)" = 3 ] || { cat out; fail "not all checkpoints"; }
expect_exit 2 "$mtf_train" classes.yaml run.model_dir=followed run.mode=evaluate evaluate.follow=true evaluate.checkpoint=best
expect_text "takes the checkpoints as they come"
