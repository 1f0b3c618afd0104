#!/usr/bin/env bash
# Tests that a run over several processes is the same run: losses, evaluations and weights have the bits of
# the same mesh in one process, however its positions are distributed. Only one process prints and writes, and
# processes send the bytes that explain predicts.
source "$2/tests/end_to_end/common.sh"
source "$source_dir/tests/end_to_end/processes.sh"
read -ra data <<< "$(mnist_data)"
layouts=$source_dir/configs/layouts
steps=6
mnist=("$source_dir/configs/models/mnist_dropout.yaml")
options=("${data[@]}" vars.hidden=48 train.batch_size=48 train.epochs=null train.steps=$steps train.log_every=1 evaluate.every=3
  optimizer=adafactor optimizer.clip_norm=0.1 learning_rate=0.01 run.threads=1)

# on PROCESSES DIRECTORY ARGUMENT...: runs in PROCESSES processes; if there are several, their messages are in
# `said`.
on() {
  local processes=$1 directory=$2
  shift 2
  if [ "$processes" = 1 ]; then
    expect_exit 0 "$mtf_train" "$@" run.model_dir="$directory"
  else
    expect_exit 0 timeout 60 "$mtf_launch" -n "$processes" -- "$mtf_train" "$@" run.model_dir="$directory"
    cp out said
  fi
}

# same_on NAME PROCESSES... -- ARGUMENT...: the run must have the bits of one process.
same_on() {
  local name=$1 processes=()
  shift
  while [ "$1" != -- ]; do
    processes+=("$1")
    shift
  done
  shift
  on 1 "$name" "$@"
  for count in "${processes[@]}"; do
    on "$count" "$name-on-$count" "$@"
    expect_same_run $steps "$name" "$name-on-$count"
    cmp <(grep -v model_dir "$name/config.yaml") <(grep -v model_dir "$name-on-$count/config.yaml") ||
      fail "$name: config.yaml says something else where $count processes have run"
  done
}

for layout in data_parallel_4 model_parallel_4 data_and_model_parallel_4 fsdp_4 zero1_4; do
  same_on $layout 2 4 -- "${mnist[@]}" "$layouts/$layout.yaml" "${options[@]}"

  # Only process 0 prints; the others have a log.
  ! grep -v '^\[0\] ' said > others || fail "others than process 0 speak: $(cat others)"
  grep -qF "[0] process 0 of 4 (mtf-launch: RANK, WORLD_SIZE); meets the others at " said || fail "nothing says who the processes are: $(cat said)"
  [ "$(cd $layout-on-4 && ls log* metrics* evaluate* events* | grep -c .)" = 7 ] || fail "$layout-on-4 has other files: $(ls $layout-on-4)"
  for rank in 1 2 3; do [ -s $layout-on-4/log.rank-$rank.txt ] || fail "process $rank has no log"; done
  [ "$(wc -l < $layout-on-4/metrics.jsonl)" = $steps ] || fail "metrics.jsonl has $(wc -l < $layout-on-4/metrics.jsonl) lines"

  # With one position in each process, it sends the bytes that explain predicts for a position.
  sent=$(sed -n 's/.*sent by a process to others in a step: //p' said)
  expect_exit 0 "$mtf_train" "${mnist[@]}" "$layouts/$layout.yaml" "${options[@]}" run.mode=explain
  expect_text "$sent sent by a position in "
done

# Through sockets, too.
on 4 fsdp-by-sockets "${mnist[@]}" "$layouts/fsdp_4.yaml" "${options[@]}" cluster.within_machine=sockets
expect_same_run $steps fsdp_4 fsdp-by-sockets

# Processes may have several positions each: three processes with two.
same_on three 3 -- "${mnist[@]}" "${options[@]}" "mesh=rows:3;cols:2" "layout=batch:rows;hidden:cols" parameter_layout=hidden:rows
# A mesh without sizes is as large as the number of processes.
on 2 auto "${mnist[@]}" "${options[@]}" mesh=all:auto layout=batch:all
on 1 auto-on-1 "${mnist[@]}" "${options[@]}" mesh=all:2 layout=batch:all
expect_same_run $steps auto auto-on-1

# Microbatches, more threads, and replicas that are computed and compared.
same_on toy 2 4 -- "$source_dir/configs/models/toy.yaml" vars.more_pairs=2 vars.io_size=12 vars.hidden_size=24 train.batch_size=24 train.steps=$steps \
  train.log_every=1 train.microbatches=3 "mesh=rows:2;cols:2" "layout=batch:rows;hidden_odd:cols" run.threads=2
on 4 replicas "$source_dir/configs/models/toy.yaml" vars.more_pairs=2 vars.io_size=12 vars.hidden_size=24 train.batch_size=24 train.steps=$steps \
  train.log_every=1 train.microbatches=3 "mesh=rows:2;cols:2" "layout=batch:rows;hidden_odd:cols" run.check_replicas=true
expect_same_run $steps toy replicas

# In run.mode=trace process 0 writes the same file as a single process.
trace=("$source_dir/configs/models/toy.yaml" vars.io_size=6 vars.hidden_size=12 run.mode=trace trace.steps=3 learning_rate=0.05 train.ema_decay=0.9
  "trace.input=$source_dir/tests/golden/02_toy_sgd/tensors.safetensors" "trace.tensors=[layer_1]" "mesh=rows:2;cols:2"
  "layout=batch:rows;hidden_odd:cols" parameter_layout=io:rows)
expect_exit 0 "$mtf_train" "${trace[@]}" trace.output=trace.1
for processes in 2 4; do
  expect_exit 0 timeout 60 "$mtf_launch" -n $processes -- "$mtf_train" "${trace[@]}" trace.output=trace.$processes
  cmp trace.1 trace.$processes || fail "$processes processes have another trace"
done

# Models of text: a vocabulary and a cache that process 0 makes for all, running means, collectives in
# bfloat16.
made_up_pairs 3 200 words
made_up_pairs 4 30 dev
small_language_model words.en 280 > lm.yaml
cat >> lm.yaml << 'YAML'
train: {batch_size: 8, ema_decay: 0.9, log_every: 1}
evaluate: {every: 3, datasets: {dev: {type: text, path: dev.en}}}
mesh: {rows: 2, cols: 2}
layout: {batch: rows, heads: cols, d_ff: cols, vocab: cols}
YAML
for activation in float32 bfloat16; do
  same_on lm-$activation 2 4 -- lm.yaml train.steps=$steps precision.activation=$activation data.cache=cache-$activation
done
on 4 lm-other-cache lm.yaml train.steps=$steps data.cache=fresh
expect_same_run $steps lm-float32 lm-other-cache

# run.mode=evaluate.
"$mtf_train" three/config.yaml run.mode=evaluate > one.json 2> /dev/null
for processes in 2 3 6; do
  "$mtf_launch" -n $processes -- "$mtf_train" three-on-3/config.yaml run.mode=evaluate > many 2> errors || fail "evaluation on $processes: $(cat errors)"
  cmp <(sed 's/,"seconds".*//' one.json) <(sed 's/^\[0\] //; s/,"seconds".*//' many) || fail "evaluation on $processes processes says something else"
done
