#!/bin/bash
# Tests parameter servers as processes on this machine: synchronous training has the bits of one process,
# asynchronous training learns and respects its bound, and lost processes are named. Usage:
# parameter_server_test.sh MTF_TRAIN SOURCE_DIR
. "$(dirname "$0")/common.sh"

jobs_running=()
trap 'kill -9 "${jobs_running[@]}" 2> /dev/null || true; rm -rf "$work"' EXIT

common="$(mnist_data) vars.hidden=32 run.threads=1 train.batch_size=60 train.epochs=null train.log_every=1"
common+=" evaluate.every=0"
timeouts="cluster.connect_timeout=20s cluster.collective_timeout=20s"

# Finds ports that are free now.
free_ports() {
  local port ports=()
  while [ ${#ports[@]} -lt "$1" ]; do
    port=$((20000 + RANDOM % 12000))
    (exec 3<> "/dev/tcp/127.0.0.1/$port") 2> /dev/null || ports+=("127.0.0.1:$port")
  done
  (IFS=,; echo "${ports[*]}")
}

# cluster SERVERS WORKERS: writes cluster.yaml.
cluster() {
  local all
  IFS=, read -ra all <<< "$(free_ports $(($1 + $2)))"
  (IFS=,; echo "cluster: {jobs: {ps: [${all[*]:0:$1}], worker: [${all[*]:$1}]}}") > cluster.yaml
}

# task NAME JOB NUMBER ARGUMENT...: starts a process; its output is written to NAME.JOB.NUMBER, its id to
# $pid.
task() {
  local name=$1 job=$2 number=$3
  shift 3
  # shellcheck disable=SC2086
  "$mtf_train" "$source_dir/configs/models/mnist.yaml" cluster.yaml $common $timeouts "$@" run.model_dir="$name" \
    cluster.job="$job" cluster.task="$number" > "$name.$job.$number" 2>&1 &
  pid=$!
  jobs_running+=("$pid")
}

# together NAME SERVERS WORKERS ARGUMENT...: starts all processes of a run, which must succeed.
together() {
  local name=$1 servers=$2 workers=$3 pids=() i
  shift 3
  cluster "$servers" "$workers"
  for ((i = 0; i < servers; i++)); do task "$name" ps $i "$@"; pids+=("$pid"); done
  for ((i = 0; i < workers; i++)); do task "$name" worker $i "$@"; pids+=("$pid"); done
  for pid in "${pids[@]}"; do
    wait "$pid" || { cat "$name".*.*; fail "$name: a process ends with $?"; }
  done
}

# with_tf_config NAME JOBS TYPE INDEX ARGUMENT...: starts a task whose environment has TF_CONFIG, like task().
with_tf_config() {
  local name=$1 jobs=$2 type=$3 index=$4
  shift 4
  # shellcheck disable=SC2086
  TF_CONFIG="{\"cluster\": $jobs, \"task\": {\"type\": \"$type\", \"index\": $index}}" \
    "$mtf_train" "$source_dir/configs/models/mnist.yaml" $common $timeouts "$@" run.model_dir="$name" \
    > "$name.$type.$index" 2>&1 &
  pid=$!
  jobs_running+=("$pid")
}

# begun NAME: waits until a run has logged a step.
begun() {
  local i
  for ((i = 0; i < 600; i++)); do grep -q '"step"' "$1/metrics.jsonl" 2> /dev/null && return || sleep 0.1; done
  cat "$1".*
  fail "$1 does not begin"
}

# joined: waits until a worker is connected to the first address of cluster.yaml.
joined() {
  local i port
  port=$(printf %04X "$(sed -n 's/[^:]*: {jobs: {ps: \[127.0.0.1:\([0-9]*\).*/\1/p' cluster.yaml)")
  for ((i = 0; i < 600; i++)); do grep -q ": 0100007F:$port [0-9A-F]*:[0-9A-F]* 01 " /proc/net/tcp && return || sleep 0.1; done
  fail "no worker has a connection with the server"
}

# ends_with CODE PROCESS NAME: the process must end with CODE.
ends_with() {
  local code=0
  wait "$2" || code=$?
  [ $code -eq "$1" ] || { cat "$3".*; fail "$3: exit code $code, not $1"; }
}

alone() {
  local name=$1
  shift
  # shellcheck disable=SC2086
  expect_exit 0 "$mtf_train" "$source_dir/configs/models/mnist.yaml" $common "$@" run.model_dir="$name"
}

# same_weights NAME NAME: the files of the last checkpoints must be the same, whichever process wrote them.
same_weights() {
  local first second stem
  first=$(ls -d "$1"/checkpoints/step-* | tail -1) second=$(ls -d "$2"/checkpoints/step-* | tail -1)
  [ "$(basename "$first")" = "$(basename "$second")" ] || fail "$1 and $2 end at different steps"
  for stem in weights optimizer averages; do
    [ -e "$(echo "$first/$stem"*)" ] || continue
    cmp "$first/$stem"* "$second/$stem"* || fail "$stem of $1 and $2 differ"
  done
}

sync="train.strategy={type: parameter_server, mode: sync}"
async="train.strategy={type: parameter_server, mode: async}"

# Synchronous training has the bits of one process with as many positions.
alone one_of_2 mesh=all:2 layout=batch:all train.steps=12
together sync_1_2 1 2 "$sync" mesh=all:2 layout=batch:all train.steps=12
same_weights one_of_2 sync_1_2
cmp <(losses one_of_2) <(losses sync_1_2) || fail "the losses differ"

# The same jobs are given by TF_CONFIG, whose chief is worker 0; its evaluator has nothing to do.
IFS=, read -ra ports <<< "$(free_ports 4)"
tf_jobs="{\"ps\": [\"${ports[0]}\"], \"chief\": [\"${ports[1]}\"], \"worker\": [\"${ports[2]}\"],"
tf_jobs+=" \"evaluator\": [\"${ports[3]}\"]}"
pids=()
for type in ps chief worker; do
  with_tf_config tf_config "$tf_jobs" $type 0 "$sync" mesh=all:2 layout=batch:all train.steps=12
  pids+=("$pid")
done
for pid in "${pids[@]}"; do
  wait "$pid" || { cat tf_config.*; fail "TF_CONFIG: a process ends with $?"; }
done
same_weights one_of_2 tf_config
with_tf_config tf_config "$tf_jobs" evaluator 0 "$sync" mesh=all:2 layout=batch:all train.steps=12
code=0
wait "$pid" || code=$?
[ $code -eq 2 ] && grep -q "this process is the evaluator of TF_CONFIG" tf_config.evaluator.0 ||
  { cat tf_config.evaluator.0; fail "exit code $code of an evaluator"; }

adam="optimizer={type: adam, clip_norm: 0.5}"
alone one_of_3 mesh=all:3 layout=batch:all train.steps=12 "$adam" learning_rate=0.001 train.ema_decay=0.9
together sync_2_3 2 3 "$sync" mesh=all:3 layout=batch:all train.steps=12 "$adam" learning_rate=0.001 \
  train.ema_decay=0.9
same_weights one_of_3 sync_2_3

# Slots of bfloat16, and those in codes of 8 bits, are rounded alike, also those of weights that are cut between servers.
for type in bfloat16 int8; do
  narrow="precision.slots=$type run.seed=3"
  alone ${type}_slots mesh=all:2 layout=batch:all train.steps=5 "$adam" learning_rate=0.001 $narrow
  together ${type}_slots_2_2 2 2 "$sync" mesh=all:2 layout=batch:all train.steps=5 "$adam" learning_rate=0.001 $narrow
  same_weights ${type}_slots ${type}_slots_2_2
done
grep -q "parameter servers: 0 has [0-9]* variables, .* 1 has" sync_2_3/log.txt || fail "no bytes of the servers in the log"
grep -Eq 'layer_1/kernel` .* is split along `[a-z]+`: 0 to [0-9]+ at 0, [0-9]+ to [0-9]+ at 1' sync_2_3/log.txt ||
  fail "the largest variable is not split in rows"
cmp <(sed 's/"time.*//' one_of_3/metrics.jsonl) <(sed 's/"time.*//' sync_2_3/metrics.jsonl) || fail "the metrics differ"
diff <(sed 's/"seconds.*//' one_of_3/evaluate.jsonl) <(sed 's/"seconds.*//' sync_2_3/evaluate.jsonl) ||
  fail "the evaluations differ"
# An optimizer that is not elementwise keeps its weights whole.
soap="optimizer={type: soap, precondition_frequency: 4}"
alone one_soap mesh=all:2 layout=batch:all train.steps=12 "$soap" learning_rate=0.003
together sync_soap 2 2 "$sync" mesh=all:2 layout=batch:all train.steps=12 "$soap" learning_rate=0.003
same_weights one_soap sync_soap
# Patterns place the variables that they match; the others are placed by size.
together patterns 2 3 "$sync" mesh=all:3 layout=batch:all train.steps=12 "$adam" learning_rate=0.001 \
  train.ema_decay=0.9 "train.strategy.placement={layer_1: 1}"
same_weights one_of_3 patterns
grep -q "is split" patterns/log.txt && fail "a variable of a pattern is split"
# Each worker may have several positions, split over both mesh dimensions, and microbatches.
alone one_of_12 mesh="rows:6;cols:2" layout="batch:rows;hidden:cols" train.steps=6 train.microbatches=2
together sync_2_3_mesh 2 3 "$sync" mesh="rows:6;cols:2" layout="batch:rows;hidden:cols" train.steps=6 \
  train.microbatches=2
expect_close <(losses one_of_12) <(losses sync_2_3_mesh) 1e-5

# After values that are not finite the run goes back to the last checkpoint (here the start) at half the rate,
# until it succeeds.
diverges="optimizer=sgd learning_rate=1e20 train.on_divergence=restore checkpoint.every=null train.steps=12"
# shellcheck disable=SC2086
alone one_restored mesh=all:2 layout=batch:all $diverges
# shellcheck disable=SC2086
together sync_restored 2 2 "$sync" mesh=all:2 layout=batch:all $diverges
same_weights one_restored sync_restored
for name in one_restored sync_restored; do grep -o "goes back to step.*" $name/log.txt > $name.restored; done
grep -q "goes back to step 0, with 0.5 times" sync_restored.restored || fail "nothing diverges"
cmp one_restored.restored sync_restored.restored || fail "the runs go back differently"

# A run without servers resumes from a checkpoint of a run with servers, and the reverse.
alone sync_1_2 train.strategy=all_reduce mesh=all:2 layout=batch:all train.steps=18
together one_of_2 1 2 "$sync" mesh=all:2 layout=batch:all train.steps=18
same_weights one_of_2 sync_1_2

# Asynchronous training: one batch at a time gives the same as one process; otherwise the bound holds and the
# run learns.
alone one train.steps=12
together async_0 2 2 "train.strategy={type: parameter_server, mode: async, max_staleness: 0}" train.steps=12
same_weights one async_0
alone one_adam train.steps=12 "$adam" learning_rate=0.001
together async_0_adam 2 2 "train.strategy={type: parameter_server, mode: async, max_staleness: 0}" train.steps=12 \
  "$adam" learning_rate=0.001
grep -q 'layer_1/kernel` .* is split along' async_0_adam/log.txt || fail "the largest variable is not split in rows"
same_weights one_adam async_0_adam
together async 1 3 "train.strategy={type: parameter_server, mode: async, max_staleness: 1}" train.epochs=12
grep -q "finished after train.epochs = 12" async/log.txt || fail "the run does not end with its epochs"
grep -q "updates by staleness: 0: " async/log.txt || fail "no histogram of staleness"
grep -Eq "updates by staleness: .*[^0-9](2|3|4): " async/log.txt && fail "an update is older than the bound"
tail -1 async/metrics.jsonl | grep -q '"step":80,.*"staleness_mean":' || fail "no staleness in metrics.jsonl"
tail -1 async/evaluate.jsonl | grep -Eq '"accuracy":(1|0\.9)' || fail "the run does not learn"
sed -n 's/.*\(worker [12]\) leaves after \([0-9]*\) batches/\2/p' async.worker.1 | grep -q . || fail "no farewell"

# If values are repeatedly not finite, all processes end with 3, whichever worker had the last batch.
for arguments in "train.on_divergence=skip train.steps=300" "train.steps=300"; do
  cluster 1 2
  pids=()
  # shellcheck disable=SC2086
  for job in "ps 0" "worker 1" "worker 0"; do
    [ "$job" != "worker 0" ] || joined
    task diverged $job "$async" optimizer=sgd learning_rate=1e30 $arguments
    pids+=("$pid")
  done
  for pid in "${pids[@]}"; do ends_with 3 "$pid" diverged; done
  rm -r diverged
done

# An asynchronous run resumes from its checkpoint, with each batch once.
together async 1 2 "$async" train.epochs=13
tail -1 async/metrics.jsonl | grep -q '"step":87,.*"examples":5220' || fail "the run does not go on"

# A killed worker does not stop the others, and a late one joins.
cluster 1 3
task killed ps 0 "$async" train.steps=5000 train.log_every=100
server=$pid
task killed worker 0 "$async" train.steps=5000 train.log_every=100
chief=$pid
task killed worker 1 "$async" train.steps=5000 train.log_every=100
victim=$pid
begun killed
kill -9 "$victim"
task killed worker 2 "$async" train.steps=5000 train.log_every=100
late=$pid
for process in "$chief" "$late" "$server"; do
  wait "$process" || { cat killed.*; fail "a process ends with $? after another worker was killed"; }
done
grep -q "worker 1 (127.0.0.1:.* was lost; the others go on" killed.ps.0 || fail "the lost worker is not named"
tail -1 killed/metrics.jsonl | grep -q '"step":5000,.*"examples":300000' || fail "not every batch was done once"

# With one batch at a time the run has the bits of one process, though a worker is killed and started again and again:
# no update is at one server alone.
one_at_a_time="train.strategy={type: parameter_server, mode: async, max_staleness: 0}"
alone undisturbed_async train.steps=3000 train.log_every=100
cluster 2 3
task torn ps 0 "$one_at_a_time" train.steps=3000 train.log_every=100
servers=("$pid")
task torn ps 1 "$one_at_a_time" train.steps=3000 train.log_every=100
servers+=("$pid")
task torn worker 0 "$one_at_a_time" train.steps=3000 train.log_every=100
chief=$pid
task torn worker 2 "$one_at_a_time" train.steps=3000 train.log_every=100
other=$pid
begun torn
for ((i = 0; i < 8; i++)); do
  task torn worker 1 "$one_at_a_time" train.steps=3000 train.log_every=100
  sleep 0.$((30 + RANDOM % 60))
  kill -9 "$pid" 2> /dev/null || true
  code=0
  wait "$pid" 2> /dev/null || code=$?
  # It is not refused; it ends by itself only after the run.
  case $code in 0 | 75 | 137) ;; *) cat torn.worker.1; fail "worker 1 ends with $code" ;; esac
done
for process in "$chief" "$other" "${servers[@]}"; do ends_with 0 "$process" torn; done
same_weights undisturbed_async torn

# Another build of the program is refused.
{ cat "$mtf_train"; echo; } > other_build
chmod +x other_build
cluster 1 2
task build ps 0 "$async" train.steps=10 cluster.connect_timeout=5s
server=$pid
mtf_train=$work/other_build task build worker 1 "$async" train.steps=10
ends_with 2 "$pid" build
grep -q "worker 1 (127.0.0.1:.*differs in build: " build.worker.1 || { cat build.worker.1; fail "the build is not named"; }
ends_with 75 "$server" build
[ "$(grep -c "worker 0 did not connect within 5 s" build.ps.0)" = 1 ] ||
  { cat build.ps.0; fail "the reason is not printed once"; }

# After SIGTERM to a server the workers save and leave, and the servers after them.
for mode in sync async; do
  cluster 2 2
  arguments=("train.strategy={type: parameter_server, mode: $mode}" train.steps=100000 train.log_every=100)
  [ $mode = async ] || arguments+=(mesh=all:2 layout=batch:all)
  name=stopped_$mode
  task $name ps 0 "${arguments[@]}"
  other_server=$pid
  task $name ps 1 "${arguments[@]}"
  server=$pid
  task $name worker 0 "${arguments[@]}"
  chief=$pid
  task $name worker 1 "${arguments[@]}"
  other=$pid
  begun $name
  kill -TERM "$server"
  ends_with 143 "$chief" $name
  ends_with 143 "$other" $name
  ends_with 143 "$server" $name
  ends_with 0 "$other_server" $name
  grep -q "stopped by SIGTERM" $name/log.txt || fail "$mode: the run does not say why it ends"
  ls -d $name/checkpoints/step-* > out || fail "$mode: nothing was saved"
done

# After SIGTERM in asynchronous training a worker leaves and the others continue; if it is the chief, the run
# ends.
cluster 1 2
task leaving ps 0 "$async" train.steps=100000 train.log_every=100
server=$pid
task leaving worker 0 "$async" train.steps=100000 train.log_every=100
chief=$pid
task leaving worker 1 "$async" train.steps=100000 train.log_every=100
other=$pid
begun leaving
for ((i = 0; i < 600; i++)); do grep -q "worker 1 of 2" leaving.worker.1 && break || sleep 0.1; done
kill -TERM "$other"
ends_with 143 "$other" leaving
grep -q "worker 1 leaves after" leaving.worker.1 || { cat leaving.*; fail "worker 1 does not leave well"; }
kill -0 "$chief" || fail "the run ends with worker 1"
kill -TERM "$chief"
ends_with 143 "$chief" leaving
ends_with 0 "$server" leaving

# After SIGTERM a server without a run ends at once.
cluster 1 1
task unused ps 0 "$async" train.steps=1
server=$pid
for ((i = 0; i < 600; i++)); do grep -q "variables" unused.ps.0 && break || sleep 0.1; done
kill -TERM "$server"
ends_with 143 "$server" unused
grep -q "stopped by a signal before the run began" unused.ps.0 || fail "an unused server does not say so"

# A killed server ends the run, and a worker names it.
for mode in sync async; do
  cluster 2 2
  arguments=("train.strategy={type: parameter_server, mode: $mode}" train.steps=100000 train.log_every=100)
  [ $mode = async ] || arguments+=(mesh=all:2 layout=batch:all)
  task "dead_$mode" ps 0 "${arguments[@]}"
  first=$pid
  task "dead_$mode" ps 1 "${arguments[@]}"
  victim=$pid
  task "dead_$mode" worker 0 "${arguments[@]}"
  chief=$pid
  task "dead_$mode" worker 1 "${arguments[@]}"
  other=$pid
  begun "dead_$mode"
  kill -9 "$victim"
  for process in "$chief" "$other" "$first"; do
    ends_with 75 "$process" "dead_$mode"
  done
  # The worker that hears of the other's end first names that.
  grep -q "parameter server 1 (127.0.0.1:[0-9]*) was lost" "dead_$mode.worker.0" "dead_$mode.worker.1" ||
    { cat "dead_$mode".worker.*; fail "$mode: the lost server is not named"; }
done

# mtf-launch restarts all of them, and they resume from the last checkpoint; synchronous runs resume exactly.
long=(train.steps=1500 checkpoint.every=50 "optimizer={type: adam, clip_norm: 0.5}" learning_rate=0.001)
alone undisturbed mesh=all:2 layout=batch:all "${long[@]}"
for mode in sync async; do
  name=again_$mode
  arguments=("train.strategy={type: parameter_server, mode: $mode}" "${long[@]}")
  [ $mode = async ] || arguments+=(mesh=all:2 layout=batch:all)
  rm -f server.number
  # shellcheck disable=SC2016,SC2086
  "$(dirname "$mtf_train")/mtf-launch" --job ps=1 --job worker=2 --restarts 2 -- \
    sh -c 'case $TF_CONFIG in *\"type\":\"ps\"*) echo $$ > server.number ;; esac; exec "$@"' sh \
    "$mtf_train" "$source_dir/configs/models/mnist.yaml" $common $timeouts "${arguments[@]}" run.model_dir=$name \
    > $name.out 2>&1 &
  pid=$!
  jobs_running+=("$pid")
  for ((i = 0; i < 1200; i++)); do compgen -G "$name/checkpoints/step-*" > out && break || sleep 0.02; done
  kill -9 "$(cat server.number)" || { cat $name.out; fail "$mode: the server has ended already"; }
  wait "$pid" || { cat $name.out; fail "$mode: the run ends with $?"; }
  grep -q "ps 0 was killed by signal 9" $name.out || fail "$mode: the killed server is not named"
  grep -q "parameter server 0 (127.0.0.1:[0-9]*) was lost" $name.out || fail "$mode: no worker names the server"
  grep -Eq "continues after step [0-9]+ of" $name/log.txt || fail "$mode: does not go on from a checkpoint"
  tail -1 $name/metrics.jsonl | grep -q '"step":1500,.*"examples":90000' || fail "$mode: not every batch was done once"
done
same_weights undisturbed again_sync
cmp <(sed 's/"time.*//' undisturbed/metrics.jsonl) <(sed 's/"time.*//' again_sync/metrics.jsonl) || fail "the metrics differ"

# One worker has another configuration.
cluster 1 2
task other ps 0 "$async" train.steps=10 cluster.connect_timeout=5s
server=$pid
task other worker 1 "$async" train.steps=10 run.seed=2
code=0
wait "$pid" || code=$?
[ $code -eq 2 ] || { cat other.*; fail "exit code $code for another seed"; }
grep -q "worker 1 (127.0.0.1:.*differs in run.seed: 2, at parameter server 0 1" other.worker.1 ||
  { cat other.worker.1; fail "the field that differs is not named"; }
code=0
wait "$server" || code=$?
[ $code -eq 75 ] || fail "exit code $code of a server without a chief"
grep -q "worker 0 did not connect within 5 s" other.ps.0 || fail "the missing worker is not named"

# Configurations that cannot work are reported.
# shellcheck disable=SC2086
expect_exit 2 "$mtf_train" "$source_dir/configs/models/mnist.yaml" $common "$async" train.steps=1
expect_text '`train.strategy: parameter_server` needs servers'
# shellcheck disable=SC2086
expect_exit 2 "$mtf_train" "$source_dir/configs/models/mnist.yaml" cluster.yaml $common "$async" train.steps=1 \
  train.on_divergence=restore cluster.job=worker
expect_text '`train.on_divergence: restore` does not work with asynchronous parameter servers'
cluster 1 2
# shellcheck disable=SC2086
expect_exit 2 "$mtf_train" "$source_dir/configs/models/mnist.yaml" cluster.yaml $common $timeouts "$sync" \
  train.steps=1 mesh=all:2 layout=batch:all cluster.job=ps "train.strategy.placement={layer: 1}"
expect_text 'there is no ps task 1 for `layer`'
# shellcheck disable=SC2086
expect_exit 2 "$mtf_train" "$source_dir/configs/models/mnist.yaml" cluster.yaml $common $timeouts "$sync" \
  train.steps=1 mesh=all:2 layout=hidden:all cluster.job=ps
expect_text 'the layout splits `layer_1/kernel`'
expect_text 'between processes, but with parameter servers each worker has whole variables'

# shellcheck disable=SC2086
expect_exit 2 "$mtf_train" "$source_dir/configs/models/mnist.yaml" cluster.yaml $common $timeouts "$sync" \
  train.steps=1 mesh=all:2 layout=batch:all optimizer_layout=hidden:all optimizer=adam cluster.job=ps
expect_text 'between processes, but with parameter servers the servers hold it'

# The configuration of a worker can be explained, on the mesh of a single worker.
# shellcheck disable=SC2086
expect_exit 0 "$mtf_train" "$source_dir/configs/models/mnist.yaml" cluster.yaml $common "$async" train.steps=1 \
  run.mode=explain cluster.job=worker
expect_text "this is the step without parameter servers"
echo "parameter_server_test: passed"
