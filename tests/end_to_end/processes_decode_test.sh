#!/usr/bin/env bash
# Tests decoding, scoring, evaluation, trace and explain over several processes: the same texts and numbers as
# in one process on the same mesh, from files and line by line; process 0 reads and writes, and its errors end
# all processes.
source "$2/tests/end_to_end/common.sh"
source "$2/tests/end_to_end/processes.sh"
use_python

awk 'BEGIN {
  srand(5)
  n = split("the a red small quiet old cat dog bird man river house sees finds likes paints stone window boat song", words, " ")
  for (i = 0; i < 440; i++) {
    line = ""
    for (left = 2 + int(rand() * 7); left > 0; left--) line = line (line ? " " : "") words[1 + int(rand() * n)]
    print line
  }
}' > all.in
rev all.in > all.out
for side in in out; do
  head -n 400 all.$side > train.$side
  tail -n 40 all.$side > test.$side
done
cat > translate.yaml << 'YAML'
data:
  train: {type: parallel, inputs: train.in, targets: train.out}
  vocabulary: bytes
  sequence_length: 64
  cache: cache
model:
  type: bitransformer
  d_model: 32
  max_length: 64
  layer_defaults:
    SelfAttention: {num_heads: 4, key_value_size: 8}
    EncDecAttention: {num_heads: 4, key_value_size: 8}
    DenseReluDense: {hidden_size: 64}
  encoder: {num_layers: 1, block: [SelfAttention, DenseReluDense]}
  decoder: {num_layers: 1, block: [SelfAttention, EncDecAttention, DenseReluDense]}
train: {steps: 60, batch_size: 16, log_every: 20}
evaluate:
  batch_size: 16
  infer: {max_length: 24, batch_size: 8}
  datasets: {test: {type: parallel, inputs: test.in, targets: test.out, metrics: [loss, bleu]}}
checkpoint: {every: 30}
YAML
expect_exit 0 "$mtf_train" translate.yaml run.model_dir=translate

# start_others NUMBER ARGUMENT...: starts the processes from 1 on in the background; they write to out.RANK
# and err.RANK.
start_others() {
  local number=$1 rank
  shift
  export WORLD_SIZE=$number MASTER_ADDR=127.0.0.1 MASTER_PORT
  MASTER_PORT=$(free_ports 1)
  for ((rank = 1; rank < number; rank++)); do
    RANK=$rank timeout 120 "$mtf_train" translate/config.yaml "$@" > "out.$rank" 2> "err.$rank" < /dev/null &
    ids[rank]=$!
  done
}
# processes NUMBER ARGUMENT...: prints the standard output of process 0; its standard error is written to
# $work/said. The others must write nothing to standard output.
processes() {
  local number=$1 rank
  shift
  if [ "$number" = 1 ]; then
    timeout 120 "$mtf_train" translate/config.yaml "$@" 2> said || { cat said >&2; fail "one process: $*"; }
    return
  fi
  (
    start_others "$number" "$@"
    RANK=0 timeout 120 "$mtf_train" translate/config.yaml "$@" 2> said || { cat said err.* >&2; fail "$number processes: $*"; }
    for ((rank = 1; rank < number; rank++)); do
      wait "${ids[rank]}" || { cat "err.$rank" >&2; fail "process $rank of $number: $*"; }
      [ ! -s "out.$rank" ] || { cat "out.$rank" >&2; fail "process $rank of $number writes: $*"; }
    done
  )
}
# expect_same NUMBER NAME ARGUMENT...: NUMBER processes must write the same file as one process.
expect_same() {
  local number=$1 name=$2
  shift 2
  processes "$number" "$@" > "$name.$number"
  cmp -s "$name.$number" "$name.1" || { diff "$name.$number" "$name.1" | head -n 5 >&2; fail "$name: $number processes write something else: $*"; }
}

cut -c 1-3 test.out > beginnings
batch="mesh=x:2 layout=batch:x"
heads="mesh=y:2 layout=heads:y;d_ff:y;vocab:y"
both="mesh=x:2;y:2 layout=batch:x;heads:y;d_ff:y;vocab:y"
while read -r numbers layout; do
  for number in 1 ${numbers//,/ }; do
    expect_same "$number" beam $layout run.mode=infer infer.input=test.in infer.batch_size=8 infer.format=jsonl infer.max_length=24
    expect_same "$number" sample $layout run.mode=infer infer.input=test.in infer.method=sample infer.prefix=beginnings infer.max_length=24 \
      infer.repetition_penalty=1.2
    expect_same "$number" scores $layout run.mode=score score.inputs=test.in score.targets=test.out score.per_token=true
    processes "$number" $layout run.mode=evaluate | sed 's/"seconds":[^,}]*//' > "evaluated.$number"
    cmp -s "evaluated.$number" evaluated.1 || { cat evaluated.* >&2; fail "$number processes evaluate to something else: $layout"; }
    grep -q '"bleu"' "evaluated.$number" || fail "no metric of written texts"
  done
done << LAYOUTS
2 $batch
2 $heads
2,4 $both
2,4 mesh=x:4 layout=batch:x
LAYOUTS

# The weights are the mean of two checkpoints; process 0 writes the output file.
for number in 1 2; do
  processes $number $heads run.mode=infer infer.input=test.in "infer.checkpoint={average: 2}" infer.max_length=24 infer.output=mean.$number > nothing
  [ ! -s nothing ] || fail "standard output beside infer.output"
  grep -q "^the mean of 2 checkpoints up to step 60: 40 lines" said || { cat said >&2; fail "there is no report"; }
done
cmp -s mean.1 mean.2 || fail "the mean of checkpoints gives something else in two processes"

# A line gets its answer before the next one is written, however long that takes.
head -n 3 test.in > three
processes 1 $heads run.mode=infer infer.input=three infer.max_length=24 > three.1
for i in 1 2 3 4 5 6; do cat test.in; done > many
late=($heads infer.max_length=24 infer.format=jsonl)
processes 1 "${late[@]}" run.mode=infer infer.input=many > many.1
[ "$(wc -c < many.1)" -gt 70000 ] || fail "a pipe keeps all answers"
mkfifo lines answers
start_others 2 $heads run.mode=infer infer.max_length=24 cluster.collective_timeout=3s
RANK=0 timeout 120 "$mtf_train" translate/config.yaml $heads run.mode=infer infer.max_length=24 cluster.collective_timeout=3s < lines > answers 2> said &
ids[0]=$!
exec 3> lines 4< answers
for line in 1 2 3; do
  [ $line != 2 ] || sleep 5
  sed -n ${line}p three >&3
  read -r -t 60 answer <&4 || { cat said err.1 >&2; fail "line $line got no answer"; }
  [ "$answer" = "$(sed -n ${line}p three.1)" ] || fail "line $line got another answer: $answer"
done
exec 3>&- 4<&-
wait "${ids[0]}" || { cat said >&2; fail "process 0 of a dialogue"; }
wait "${ids[1]}" || { cat err.1 >&2; fail "process 1 of a dialogue"; }

# The reader of the answers, the writer of the lines, and those who open the pipes may also take any time.
mkfifo late.in late.out
start_others 2 "${late[@]}" run.mode=infer infer.input=late.in infer.output=late.out cluster.collective_timeout=2s
RANK=0 timeout 120 "$mtf_train" translate/config.yaml "${late[@]}" run.mode=infer infer.input=late.in infer.output=late.out \
  cluster.collective_timeout=2s 2> said &
ids[0]=$!
sleep 4
cat many > late.in
(sleep 4; cat) < late.out > many.2
for rank in 0 1; do wait "${ids[rank]}" || { cat said err.1 >&2; fail "process $rank did not wait"; }; done
cmp -s many.1 many.2 || fail "late readers and writers get other answers"

# An error in process 0 ends all; process 1 reports it, or at least the process that it has lost.
expect_both_fail() {
  local text=$1 code=0
  shift
  start_others 2 "$@"
  RANK=0 timeout 120 "$mtf_train" translate/config.yaml "$@" > out 2>&1 || code=$?
  [ $code != 0 ] || fail "process 0 goes on: $*"
  expect_text "$text"
  code=0
  wait "${ids[1]}" || code=$?
  [ $code != 0 ] && [ $code != 124 ] || fail "process 1 ends with $code: $*"
  grep -qF -e "$text" -e "rank 0" err.1 || { cat err.1 >&2; fail "process 1 does not say it: $text"; }
}
expect_both_fail "there is no file missing.in" $heads run.mode=infer infer.input=missing.in
expect_both_fail "three has fewer lines than test.in" $heads run.mode=infer infer.input=test.in infer.prefix=three infer.max_length=24
expect_both_fail "No such file or directory" $heads run.mode=infer infer.input=test.in infer.output=no/such/directory/out

# explain: only process 0 prints, and it never waits for others.
(
  export WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=1
  RANK=1 timeout 60 "$mtf_train" translate/config.yaml $both run.mode=explain > explained.1 2>&1
  RANK=0 timeout 60 "$mtf_train" translate/config.yaml $both run.mode=explain > explained.0 2>&1
  RANK=0 timeout 60 "$mtf_train" translate/config.yaml $both run.mode=explain explain.format=json > explained.json
  WORLD_SIZE=4 RANK=0 timeout 60 "$mtf_train" translate/config.yaml $both run.mode=explain explain.format=json > explained4.json
)
[ ! -s explained.1 ] || fail "process 1 explains, too"
grep -q "4 positions in 2 processes of 2 positions" explained.0 || fail "the processes are not explained"
"$python" - << 'PYTHON'
import json
two, four = json.load(open("explained.json")), json.load(open("explained4.json"))
assert two["processes"]["count"] == 2 and two["processes"]["positions"] == 2, two["processes"]
assert four["processes"]["count"] == 4 and four["processes"]["positions"] == 1, four["processes"]
# With one position in each process, everything that a position sends leaves its process.
sent, step = four["processes"]["bytes_sent"], four["step"]["bytes_sent"]
assert abs(sent - step) <= 1e-9 * step, (sent, step)
assert 0 < two["processes"]["bytes_sent"] < 2 * step, two["processes"]
assert two["memory"]["process"]["parts"]["weights"] > four["memory"]["process"]["parts"]["weights"]
PYTHON
