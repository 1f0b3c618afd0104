#!/usr/bin/env bash
# Tests failures of one process of a run: all processes end in time, with exit codes that say whether a
# restart may help (75: a process was lost; 2: configuration), and with a message that names the culprit and
# its problem. `process_failures_test.sh MTF_TRAIN SOURCE --table` prints the messages.
source "$2/tests/end_to_end/common.sh"
source "$source_dir/tests/end_to_end/processes.sh"
read -ra data <<< "$(mnist_data)"
host=$(hostname)
timeout=2  # seconds
limit=30   # time in which all must end: some timeouts, and some more for a loaded machine
run=("$mtf_train" "$source_dir/configs/models/mnist_dropout.yaml" "${data[@]}" vars.hidden=32 train.batch_size=48 train.epochs=null train.time=1h
  learning_rate=null train.log_every=20 evaluate=null run.threads=1 layout=batch:all cluster.connect_timeout=20s cluster.collective_timeout=${timeout}s)
: > table

# observed CASE RANK...: adds the last messages of these processes to the table.
observed() {
  local case=$1 rank
  shift
  for rank; do
    printf '%s | rank %s, exit %s | %s\n' "$case" "$rank" "${codes[rank]}" "$(grep -vE '^ |^$' "out.$rank" | tail -n 1)" >> table
  done
}

# begin NAME SIZE [ARGUMENT...]: starts SIZE processes of an endless run and waits until it trains.
begin() {
  local rank
  name=$1 size=$2
  shift 2
  port=$(free_ports 1)
  for ((rank = 0; rank < size; rank++)); do
    start_rank $rank $size "${run[@]}" mesh=all:$size run.model_dir="$name" "$@"
  done
  wait_for has_lines "$name/metrics.jsonl" 2
  numbers=("${ids[@]}")
}
# called RANK: prints "rank 1 (node-a, process 812)" for the last run that was begun.
called() { echo "rank $1 ($host, process ${numbers[$1]})"; }
# lost RANK: prints what the others say about a killed process. If it is process 0 the store is lost, too, and
# so the others have less information about each other.
lost() {
  [ "$1" = 0 ] && echo "$(called 0) was lost" && return
  echo "$(called "$1") was lost: its process ended without a word (killed, out of memory, or the machine is gone)"
}
# silent RANK: prints what the others say about a stopped process.
silent() {
  [ "$1" = 0 ] && lost 0 && return
  echo "$(called "$1") does not answer: stopped, hanging, or cut off from the network"
}

# flight_record DIRECTORY RANK: the file of the last collectives must exist and be valid.
flight_record() {
  python3 -c 'import json, sys; record = json.load(open(sys.argv[1])); assert "all_reduce" in json.dumps(record), record' "$1/flight.rank-$2.json" ||
    fail "$1/flight.rank-$2.json does not have the last collectives"
}

# --- A killed process is noticed at once. With rank 0 the store is lost, too.
# killed RANK WAY: kills a process of a run whose messages go this way.
killed() {
  local victim=$1 directory=killed$1-$2 rank
  begin "$directory" 3 cluster.within_machine="$2"
  kill -9 "${ids[victim]}"
  expected=(75 75 75)
  expected[victim]=137
  all_end $limit "${expected[@]}"
  for rank in 0 1 2; do
    [ $rank = "$victim" ] && continue
    said $rank "$(lost "$victim")"
    flight_record "$directory" $rank
    observed "kill -9 of rank $victim, messages by $2" $rank
  done
}
# --- A stopped process is noticed after cluster.collective_timeout. If it is continued later it ends, too.
stopped() {
  local victim=$1 rank stopped code=0
  begin "stopped$1-$2" 3 cluster.within_machine="$2"
  stopped=${ids[victim]}
  kill -STOP "$stopped"
  unset "ids[$victim]"
  all_end $limit 75 75
  kill -CONT "$stopped"
  for rank in 0 1 2; do
    [ $rank = "$victim" ] && continue
    said $rank "$(silent "$victim")"
  done
  wait "$stopped" || code=$?
  [ $code = 75 ] || fail "a process that was stopped and goes on ends with exit code $code"
  said "$victim" "$(called "$victim") did not run for "
  codes=(75 75 75)
  observed "SIGSTOP of rank $victim, messages by $2" 0 1 2
}
for victim in 0 2; do
  for way in memory sockets; do
    killed $victim $way
    stopped $victim $way
  done
done
grep -q "waits .* s for $(called 2) in .* (collective [0-9]*, " out.0 out.1 ||
  fail "nobody has said what it waits for: $(cat out.0 out.1)"

# --- mtf-launch names the rank, and returns its exit code.
for signal in KILL STOP; do
  "$mtf_launch" -n 3 -- sh -c 'echo $$ > number.$RANK; exec "$@"' sh "${run[@]}" mesh=all:3 run.model_dir=launched$signal > out.0 2>&1 &
  ids=($!)
  wait_for has_lines launched$signal/metrics.jsonl 2
  kill -$signal "$(cat number.1)"
  if [ $signal = KILL ]; then
    all_end $limit 137
    said 0 "mtf-launch: rank 1 was killed by signal 9 (SIGKILL)"
  else
    all_end $limit 75
    said 0 "rank 1 is stopped"
  fi
  said 0 "rank 1 ($host, process $(cat number.1))"
  observed "$signal of rank 1, mtf-launch" 0
done

# A terminal that is closed sends SIGHUP: the step is saved. Under nohup the run goes on.
"$mtf_launch" -n 2 -- "${run[@]}" mesh=all:2 layout=batch:all run.model_dir=hung_up > out.0 2>&1 &
ids=($!)
wait_for has_lines hung_up/metrics.jsonl 2
kill -HUP "${ids[0]}"
all_end $limit 129
said 0 "stopped by SIGHUP"
[ -n "$(ls hung_up/checkpoints)" ] || fail "nothing is saved after SIGHUP"
(trap '' HUP && exec "${run[@]}" mesh=all:1 run.model_dir=nohup > out.0 2>&1) &
ids=($!)
wait_for has_lines nohup/metrics.jsonl 2
kill -HUP "${ids[0]}"
lines=$(wc -l < nohup/metrics.jsonl)
wait_for has_lines nohup/metrics.jsonl $((lines + 2))
kill -TERM "${ids[0]}"
all_end $limit 143

# --- Failures at the start. pair NAME: starts two processes whose arguments are in first=() and second=().
pair() {
  port=$(free_ports 1)
  start_rank 0 2 "${run[@]}" mesh=all:2 run.model_dir="$1" "${first[@]}"
  start_rank 1 2 "${second_program[@]:-${run[0]}}" "${run[@]:1}" mesh=all:2 run.model_dir="$1" "${second[@]}"
  numbers=("${ids[@]}")
}
first=() second=() second_program=()

# One process has another number of processes.
port=$(free_ports 1)
start_rank 0 2 "${run[@]}" mesh=all:6 run.model_dir=sizes
start_rank 1 3 "${run[@]}" mesh=all:6 run.model_dir=sizes
numbers=("${ids[@]}")
all_end $limit 2 2
for rank in 0 1; do
  said $rank "$(called 1) was started as one of 3 processes, but $(called 0) as one of 2"
done
observed "WORLD_SIZE=3 on rank 1 of 2" 0 1

# Two processes have the same rank.
port=$(free_ports 1)
start_rank 0 3 "${run[@]}" mesh=all:3 run.model_dir=twice
start_rank 1 3 "${run[@]}" mesh=all:3 run.model_dir=twice
first_claim=${ids[1]}
RANK=1 WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port "${run[@]}" mesh=all:3 run.model_dir=twice > out.2 2>&1 &
ids[2]=$!
numbers=("${ids[@]}")
all_end $limit 2 2 2
for rank in 0 1 2; do
  said $rank "rank 1 is claimed by two processes: "
  said $rank "process $first_claim)"
  said $rank "process ${numbers[2]})"
done
observed "two processes with RANK=1" 0 2

# A process that comes to a running run is rejected; the run continues, and a signal to one process ends it
# successfully.
begin late 2
code=0
RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port "${run[@]}" mesh=all:2 run.model_dir=late > out.2 2>&1 || code=$?
[ $code = 2 ] || { cat out.2 >&2; fail "a third process has exit code $code"; }
said 2 "127.0.0.1:$port is the meeting place of a run of 2 processes that has already begun, and this is rank 1 of 2"
lines=$(wc -l < late/metrics.jsonl)
wait_for has_lines late/metrics.jsonl $((lines + 2))
kill -TERM "${ids[1]}"
all_end $limit 143 143
said 0 "stopped by SIGTERM"
[ -n "$(ls late/checkpoints)" ] || fail "the stopped run was not saved"
codes=(143 143 2)
observed "RANK=1 once more, later" 2

# Some ranks do not come.
port=$(free_ports 1)
soon=cluster.connect_timeout=${timeout}s
for rank in 0 1; do start_rank $rank 3 "${run[@]}" mesh=all:3 run.model_dir=missing $soon; done
all_end $limit 75 75
for rank in 0 1; do said $rank "rank 2 of 3 has not come to 127.0.0.1:$port within $timeout s"; done
observed "rank 2 of 3 missing" 0 1
port=$(free_ports 1)
start_rank 1 2 "${run[@]}" mesh=all:2 run.model_dir=missing $soon
all_end $limit 75
said 1 "127.0.0.1:$port"
said 1 "Connection refused"
codes=(- 75)
observed "rank 0 of 2 missing" 1

# Another program listens at the port: one that says nothing, and one that speaks HTTP.
for other in silent http; do
  python3 - $other > port.$other << 'PYTHON' 2> /dev/null &
import http.server, socket, sys, time
if sys.argv[1] == "http":
    server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
    print(server.server_port, flush=True)
    server.serve_forever()
else:
    server = socket.create_server(("127.0.0.1", 0))
    print(server.getsockname()[1], flush=True)
    time.sleep(600)
PYTHON
  server=$!
  wait_for has_lines port.$other 1
  port=$(cat port.$other)
  for rank in 0 1; do start_rank $rank 2 "${run[@]}" mesh=all:2 run.model_dir=port $soon; done
  ids[2]=$server  # ends with the test
  wait_for [ -s out.0 ]
  wait_for [ -s out.1 ]
  kill "$server"
  all_end $limit 1 1 143
  said 0 "rank 0 cannot serve the store at port $port: Address already in use"
  said 1 "127.0.0.1:$port answers, but is not a rendezvous store"
  observed "port of another program ($other)" 0 1
done

# One process has another configuration, other data or another program file.
first=(learning_rate=0.01) second=(learning_rate=0.02)
pair configured
all_end $limit 2 2
for rank in 0 1; do said $rank "$(called 1) differs from $(called 0) in learning_rate: "; done
observed "another learning_rate on rank 1" 0 1
first=() second=(layout=hidden:all)
pair layout
all_end $limit 2 2
for rank in 0 1; do said $rank "$(called 1) differs from $(called 0) in layout.batch: nothing instead of all"; done
observed "another layout on rank 1" 0
cp "$mtf_train" other-train
echo >> other-train
second=() second_program=(./other-train)
pair program
all_end $limit 2 2
for rank in 0 1; do said $rank "$(called 1) runs another build of the program"; done
observed "another program file on rank 1" 0 1
second_program=()

# --- A process ends with an error: in its configuration, because of missing data, on a full disk.
second=(model.layers=none)
pair mistake
all_end $limit 2 2
said 1 "model.layers"
said 0 "rank 1"
said 0 "model.layers"
observed "a mistake in the configuration of rank 1" 0 1
second=(train.stepz=7)
pair mistake
all_end $limit 2 2
for rank in 0 1; do said $rank "unknown key \`train.stepz\`"; done
said 0 "rank 1"
observed "an unknown key on rank 1" 0 1
second=(data.train.images=missing-images)
pair data
all_end $limit 2 2
for rank in 0 1; do said $rank "there is no file missing-images"; done
said 0 "rank 1"
observed "data missing on rank 1" 0 1
echo damaged > damaged-images
second=(data.train.images=damaged-images)
pair damaged
all_end $limit 75 1
said 1 "damaged-images"
said 0 "$(called 1) failed first: "
said 0 "damaged-images"
observed "damaged data on rank 1" 0 1

# Each process writes a part of the weights, and that of rank 1 fails in its second save. Only the previous
# checkpoint remains.
saving=(checkpoint.every=30 parameter_layout=hidden:all)
first=("${saving[@]}") second=("${saving[@]}") second_program=(env MTF_FAULT=checkpoint.create@2=ENOSPC "$mtf_train")
pair disk
all_end $limit 75 1
said 0 "$(called 1) failed first: cannot write "
for rank in 0 1; do said $rank "No space left on device"; done
[ "$(ls -A disk/checkpoints)" = step-00000030 ] || fail "a full disk leaves $(ls -A disk/checkpoints)"
observed "disk full in a save of rank 1" 0 1
# A process is killed in the middle of a save; the next start resumes from the previous checkpoint.
second_program=(env MTF_FAULT=checkpoint.written@3 "$mtf_train")
pair saving
all_end $limit 75 137
said 0 "$(lost 1)"
observed "kill -9 of rank 1 in a save" 0
second_program=() first+=(train.time=null train.steps=40) second=("${first[@]}")
pair saving
all_end 60 0 0
said 0 "continues after step 30 of saving"
[ "$(ls -A saving/checkpoints | tail -n 1)" = step-00000040 ] || fail "a killed process leaves $(ls -A saving/checkpoints)"

# Each process sees other files at the same path, as on disks of their own: data, data that are evaluated, weights.
mkdir here.0 here.1
for rank in 0 1; do cp {train,test}-{images,labels} here.$rank; done
cp -r saving/checkpoints/step-00000040 here.0/start
cp -r disk/checkpoints/step-00000030 here.1/start
# differ FIELD [ARGUMENT...]: both processes say that this field differs.
differ() {
  local field=$1 rank
  shift
  port=$(free_ports 1)
  for rank in 0 1; do
    start_rank $rank 2 env --chdir=here.$rank "${run[@]}" mesh=all:2 run.model_dir="$work/differ" \
      data.train.{images=/proc/self/cwd/train-images,labels=/proc/self/cwd/train-labels} "$@"
  done
  numbers=("${ids[@]}")
  all_end $limit 2 2
  for rank in 0 1; do said $rank "$(called 1) differs from $(called 0) in $field: "; done
  observed "other $field on rank 1" 0
}
python3 -c 'labels = bytearray(open("here.1/train-labels", "rb").read())
labels[8:] = labels[9:] + labels[8:9]
open("here.1/train-labels", "wb").write(labels)'
differ "contents of data.train"
cp train-labels here.1
valid='evaluate.datasets.valid={type: idx, images: /proc/self/cwd/test-images, labels: /proc/self/cwd/test-labels}'
(cd here.1 && make_idx test 100)
differ "examples of evaluate.datasets.valid" "$valid"
said 1 ": 100 instead of 150"
cp test-images test-labels here.1
differ "weights of checkpoint.init" checkpoint.init.path=/proc/self/cwd/start

# Values that are not finite do not count as the loss of a process: all end with exit code 3 and the same
# message.
first=(optimizer=sgd learning_rate=1.0e30) second=("${first[@]}")
pair diverged
all_end $limit 3 3
for rank in 0 1; do said $rank "made by the operation"; done
observed "values that are not finite" 0 1

[ "${3-}" != --table ] || { echo "case | process | message"; cat table; }
