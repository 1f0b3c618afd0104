#!/usr/bin/env bash
# Tests mtf-launch: environment, prefixes, exit codes, restarts, signals, stopped and orphaned processes,
# standard input, jobs, errors. Ranks are small shell scripts, in which mtf-launch sets "$RANK".
source "$2/tests/end_to_end/common.sh"
mtf_launch=$(dirname "$mtf_train")/mtf-launch

# ranks N SCRIPT: runs the script in N ranks.
ranks() { timeout 60 "$mtf_launch" -n "$1" ${options-} -- sh -c "$2"; }

# wait_for COMMAND...: waits until the command succeeds.
wait_for() {
  local turn
  for ((turn = 0; turn < 600; turn++)); do
    "$@" && return
    sleep 0.05
  done
  fail "this never held: $*"
}
is_gone() { ! kill -0 "$1" 2> /dev/null; }
has_lines() { [ -e "$1" ] && [ "$(wc -l < "$1")" -ge "$2" ]; }
# state PID: prints the state of a process: R, S, T, ...
state() { sed 's/.*) //; s/ .*//' "/proc/$1/stat"; }
is_stopped() { [ "$(state "$1")" = T ]; }

# Each rank gets its environment.
ranks 4 'echo $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $MASTER_ADDR $TORCHELASTIC_USE_AGENT_STORE $TORCHELASTIC_RESTART_COUNT' > lines
sort lines > sorted
diff - sorted <<< "[0] 0 0 4 4 127.0.0.1 True 0
[1] 1 1 4 4 127.0.0.1 True 0
[2] 2 2 4 4 127.0.0.1 True 0
[3] 3 3 4 4 127.0.0.1 True 0" || fail "the environment is not the one expected"
ranks 4 'echo $MASTER_PORT $TORCHELASTIC_RUN_ID' | sed 's/^....//' | sort -u > port
[ "$(wc -l < port)" = 1 ] || fail "the ranks do not meet at one place: $(cat port)"
grep -qE '^[0-9]+ mtf-launch-' port || fail "no port or no name of the run: $(cat port)"

# Lines are complete, each with its rank; the two streams stay separate; the last line may lack its newline;
# bytes are kept.
ranks 3 'i=0; while [ $i -lt 300 ]; do printf "a %s" $RANK; printf " b %s\n" $i; i=$((i + 1)); done; echo bad $RANK >&2; printf "\\302\\240 end"' \
  > lines 2> errors
[ "$(grep -cE '^\[([0-2])\] a \1 b [0-9]+$' lines)" = 900 ] || fail "lines are cut or mixed"
[ "$(grep -cE $'^\\[[0-2]\\] \302\240 end$' lines)" = 3 ] || fail "a last line without its end is lost"
[ "$(wc -l < lines)" = 903 ] || fail "there are other lines: $(grep -vE ' [ab] ' lines)"
[ "$(sort errors)" = $'[0] bad 0\n[1] bad 1\n[2] bad 2' ] || fail "standard error: $(cat errors)"
[ "$(ranks 1 'printf "no end"')" = "no end" ] || fail "a single process has prefixes"
ranks 2 'head -c 5000000 /dev/zero | tr "\0" x; echo' | tr -d '\n' | tr -d '[]01 ' | wc -c > count
[ "$(cat count)" = 10000000 ] || fail "output is lost: $(cat count)"
ranks 2 'yes $RANK' | head -n 3 > lines || true  # the ranks end when their reader leaves
[ "$(wc -l < lines)" = 3 ]

# Rank 0 gets standard input.
[ "$(printf 'one\ntwo\n' | ranks 2 'cat; echo $RANK' | sort | tr '\n' ' ')" = "[0] 0 [0] one [0] two [1] 1 " ] ||
  fail "standard input does not go to rank 0"

# The first failure ends the others and determines the exit code.
expect_exit 0 ranks 4 true
expect_exit 5 ranks 4 'if [ $RANK = 2 ]; then exit 5; fi; exec sleep 50'
expect_text "mtf-launch: rank 2 ended with exit code 5; the others are ended"
expect_exit 137 ranks 4 'if [ $RANK = 3 ]; then kill -9 $$; fi; exec sleep 50'
expect_text "mtf-launch: rank 3 was killed by signal 9 (SIGKILL)"
expect_exit 3 ranks 2 'exit 3'
expect_exit 75 ranks 2 'exit $((75 * RANK))'
expect_text "rank 1 ended with exit code 75"
# A rank that has lost a peer does not count as the one that failed.
expect_exit 1 ranks 3 'case $RANK in 0) exit 75 ;; 1) sleep 0.3; exit 75 ;; 2) sleep 0.6; exit 1 ;; esac'
expect_text "mtf-launch: rank 2 ended with exit code 1"

# Ranks that do not end are killed: one that ignores SIGTERM, and one that is stopped.
options="--grace 1" expect_exit 4 ranks 2 'if [ $RANK = 1 ]; then exit 4; fi; trap "" TERM; echo $$ > deaf; while :; do sleep 0.1; done'
is_gone "$(cat deaf)" || fail "a process that takes no notice of SIGTERM is left"
expect_exit 75 ranks 2 'if [ $RANK = 1 ]; then echo $$ > stopped; kill -STOP $$; exit 9; fi; sleep 0.5; exit 75'
expect_text "mtf-launch: rank 0 ended with exit code 75; rank 1 is stopped"
is_gone "$(cat stopped)" || fail "a stopped process is left"
# Processes that a rank has started end with it.
options="--grace 1" expect_exit 6 ranks 2 'if [ $RANK = 1 ]; then sleep 0.5; exit 6; fi; sleep 500 & echo $! > inner; wait'
wait_for is_gone "$(cat inner)"

# Restarts happen as often as allowed, each with a new store, but not after failures that would recur.
options="--restarts 3" expect_exit 0 ranks 2 \
  'echo $RANK $TORCHELASTIC_RESTART_COUNT >> tries; if [ $RANK = 1 ] && [ $TORCHELASTIC_RESTART_COUNT -lt 2 ]; then kill -9 $$; fi'
[ "$(sort tries | tr '\n' ' ')" = "0 0 0 1 0 2 1 0 1 1 1 2 " ] || fail "attempts: $(cat tries)"
expect_text "mtf-launch: all 2 start again (restart 2 of 3)"
rm tries
options="--restarts 2" expect_exit 1 ranks 2 'echo >> tries; exit 1'
[ "$(wc -l < tries)" = 6 ] || fail "$(wc -l < tries) processes in three attempts of two"
for code in 2 3; do
  rm tries
  options="--restarts 2" expect_exit $code ranks 1 "echo >> tries; exit $code"
  [ "$(wc -l < tries)" = 1 ] || fail "a restart after exit code $code"
done

# jobs "--job ps=1 --job worker=2" SCRIPT: runs the script in the tasks of these jobs; $task is "ps 0",
# "worker 1".
jobs() {
  # shellcheck disable=SC2086
  timeout 60 "$mtf_launch" $1 ${options-} -- sh -c \
    'task=${TF_CONFIG##*\"type\":\"}; index=${task##*\"index\":}; task="${task%%\"*} ${index%%\}*}"; '"$2"
}

# Tasks find each other only by TF_CONFIG, whatever environment mtf-launch was started in.
RANK=1 WORLD_SIZE=2 MASTER_ADDR=a OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 SLURM_PROCID=1 PMI_RANK=1 \
  jobs "--job ps=1 --job worker=2" 'echo $TF_CONFIG $RANK$WORLD_SIZE$MASTER_ADDR$OMPI_COMM_WORLD_RANK$SLURM_PROCID$PMI_RANK' > lines
sed -E 's/127.0.0.1:[0-9]+/PLACE/g' lines | sort > sorted
cluster='{"cluster":{"ps":["PLACE"],"worker":["PLACE","PLACE"]}'
diff - sorted <<< "[ps:0] $cluster,\"task\":{\"type\":\"ps\",\"index\":0}}
[worker:0] $cluster,\"task\":{\"type\":\"worker\",\"index\":0}}
[worker:1] $cluster,\"task\":{\"type\":\"worker\",\"index\":1}}" || fail "the tasks are not told where they are"
sed -E 's/^\[[^]]*\]//' lines | grep -oE '127.0.0.1:[0-9]+' | sort | uniq -c > places
[ "$(awk '{print $1}' places | tr '\n' ' ')" = "3 3 3 " ] || fail "the tasks do not have a place each: $(cat places)"
# A task can listen at its port, which is reserved for it.
jobs "--job worker=3" 'case $task in *[12]) exit 0 ;; esac; exec python3 -c "import json, os, socket
for place in json.loads(os.environ[\"TF_CONFIG\"])[\"cluster\"][\"worker\"]:
  host, port = place.split(\":\")
  with socket.create_server((host, int(port))): print(\"listens\")"' > lines
[ "$(cat lines)" = $'[worker:0] listens\n[worker:0] listens\n[worker:0] listens' ] || fail "no place to listen at: $(cat lines)"
# The chief gets standard input.
[ "$(echo one | jobs "--job worker=1 --job chief=1" 'cat; echo end' | sort | tr '\n' ' ')" = \
  "[chief:0] end [chief:0] one [worker:0] end " ] || fail "standard input does not go to the chief"

# Servers are ended when the workers have ended, and the exit code is 0 if the workers succeeded; a server has
# time to save.
expect_exit 0 jobs "--job ps=2 --job worker=2" 'case $task in ps*) echo $$ >> servers; exec sleep 500 ;; esac'
[ "$(cat out)" = "" ] || fail "a launch that went well says: $(cat out)"
for id in $(cat servers); do is_gone "$id" || fail "a server is left"; done
expect_exit 0 jobs "--job ps=1 --job worker=1" 'case $task in ps*) trap "echo ended; exit 1" TERM; while :; do sleep 0.05; done ;; esac'
expect_text "[ps:0] ended"
options="--grace 1" expect_exit 0 jobs "--job ps=1 --job worker=1" 'case $task in ps*) trap "" TERM; while :; do sleep 0.1; done ;; esac'
expect_exit 0 jobs "--job ps=1 --job worker=2" 'case $task in ps*) exit 7 ;; *) sleep 0.3 ;; esac'
expect_text "mtf-launch: ps 0 ended with exit code 7; those that it served have ended well"
# The first failure of any task ends all.
expect_exit 5 jobs "--job ps=1 --job worker=2" 'case $task in "worker 1") exit 5 ;; esac; exec sleep 500'
expect_text "mtf-launch: worker 1 ended with exit code 5; the others are ended"
expect_exit 137 jobs "--job ps=1 --job worker=2" 'case $task in ps*) kill -9 $$ ;; worker*) sleep 0.3; exit 75 ;; esac'
expect_text "mtf-launch: ps 0 was killed by signal 9 (SIGKILL)"
# All tasks are restarted, at other ports.
rm -f tries places
options="--restarts 2" expect_exit 0 jobs "--job ps=1 --job worker=2" 'echo $TORCHELASTIC_RESTART_COUNT $task >> tries
  echo ${TF_CONFIG%%,\"task*} >> places
  case "$task $TORCHELASTIC_RESTART_COUNT" in ps*) exec sleep 500 ;; "worker 1 0") kill -9 $$ ;; worker*) sleep 0.5 ;; esac'
[ "$(sort tries | tr '\n' ' ')" = "0 ps 0 0 worker 0 0 worker 1 1 ps 0 1 worker 0 1 worker 1 " ] || fail "attempts: $(cat tries)"
[ "$(sort -u places | wc -l)" = 2 ] || fail "the places of both attempts: $(cat places)"
expect_text "mtf-launch: all 3 start again (restart 1 of 2)"

# in_background N SCRIPT: starts mtf-launch; $launcher is its process id, standard output is written to
# `lines`.
in_background() {
  rm -f ids lines
  "$mtf_launch" ${options-} -n "$1" -- sh -c "$2" > lines 2> errors &
  launcher=$!
  wait_for has_lines ids "$1"
}
# ends_with CODE: the program in the background must end with CODE.
ends_with() {
  local code=0
  wait "$launcher" || code=$?
  [ $code = "$1" ] || fail "exit code $code, not $1: $(cat lines errors)"
}

# Signals are passed on, once; there is no restart after them.
for signal in INT TERM; do
  number=$(kill -l $signal)
  options="--restarts 3" in_background 3 "trap 'echo got $signal; exit $((128 + number))' $signal; echo \$\$ >> ids; while :; do sleep 0.05; done"
  kill -$signal $launcher
  ends_with $((128 + number))
  [ "$(sort lines)" = "[0] got $signal
[1] got $signal
[2] got $signal" ] || fail "$signal: $(cat lines)"
  ! grep -q mtf-launch errors || fail "$signal: $(cat errors)"
done
# After a signal a process has as much time as it needs to save, longer than after a failure.
options="--grace 0" in_background 2 'trap "sleep 0.5; echo saved; exit 0" TERM; echo $$ >> ids; while :; do sleep 0.05; done'
kill -TERM $launcher
ends_with 0
[ "$(grep -c saved lines)" = 2 ] || fail "not all have saved: $(cat lines)"
# A reader that does not read blocks only the output: signals still end all processes.
mkfifo slow
sleep 500 < slow &
reader=$!
rm -f ids
"$mtf_launch" -n 2 -- sh -c 'echo $$ >> ids; exec yes' > slow 2> errors &
launcher=$!
wait_for has_lines ids 2
sleep 0.5
kill -TERM $launcher
has_ended() { [ "$(state "$1" 2> /dev/null || echo Z)" = Z ]; }
for id in $(cat ids); do wait_for has_ended "$id"; done
kill -TERM $launcher  # the remaining output is discarded
: > lines
ends_with 143
kill $reader
# A process that loses a peer to the signal before it ends by itself is no failure.
in_background 2 'echo $$ >> ids; [ $RANK = 1 ] || exec sleep 500; trap "sleep 0.2; exit 75" TERM; while :; do sleep 0.05; done'
kill -TERM $launcher
ends_with 143
! grep -q mtf-launch errors || fail "a lost peer after a signal: $(cat errors)"
# A stopped process also gets the signal.
in_background 2 'echo $$ >> ids; exec sleep 500'
stopped=$(tail -n 1 ids)
kill -STOP "$stopped" && wait_for is_stopped "$stopped"
kill -TERM $launcher
ends_with 143

# No process is left if mtf-launch is killed.
in_background 3 'echo $$ >> ids; exec sleep 500'
kill -9 $launcher
ends_with 137
for id in $(cat ids); do wait_for is_gone "$id"; done

# Programs that cannot be run, help, and errors of usage.
expect_exit 127 "$mtf_launch" -n 2 -- ./missing
expect_text "\`./missing\` cannot be run: No such file or directory"
: > file
expect_exit 126 "$mtf_launch" -n 2 ./file
expect_exit 0 "$mtf_launch" -n2 true
expect_exit 0 "$mtf_launch" --version
expect_text "mtf-launch "
expect_exit 0 "$mtf_launch" --help
expect_text "usage: mtf-launch [-n N | --job NAME=N...]"
[ "$(wc -l < out)" -le 45 ] || fail "--help is longer than a screen"
for words in "" "-n 2" "-n 2 --" "-n 0 -- true" "-n x -- true" "-n -- true" "-n 1000 true" "--proceses 2 true" "--restarts -1 true" "-n=2x true" \
  "--job" "--job -- true" "--job ps -- true" "--job worker=0 -- true" "--job worker=x true" "--job =2 true" "--job a/b=2 true" \
  "--job w=1 --job w=1 true" "-n 2 --job worker=1 true" "--job ps=1 true"; do
  read -ra arguments <<< "$words"
  expect_exit 2 "$mtf_launch" "${arguments[@]}"
  [ "$(wc -l < out)" = 1 ] || { cat out >&2; fail "trouble is not said in one line: mtf-launch $words"; }
done
expect_exit 2 "$mtf_launch" --proceses 2 true
expect_text "did you mean \`--processes\`?"
expect_exit 2 "$mtf_launch" -np 2 true
expect_text "unknown option \`-np\`; did you mean \`-n\`?"
