# Sourced after common.sh by the tests of runs over several processes: functions that start processes and wait
# for their end. Environment variables of a launcher that runs the tests are removed.
mtf_launch=$(dirname "$mtf_train")/mtf-launch
for variable in ${!TORCHELASTIC_*} ${!MASTER_*} ${!OMPI_*} ${!PMIX_*} ${!PMI_*} ${!MPI_*} ${!SLURM_*}; do unset "$variable"; done
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE TF_CONFIG JOB_COMPLETION_INDEX MTF_SECRET MTF_STORE variable

ids=()    # ids of the background processes, by rank
codes=()  # their exit codes, by rank
trap 'kill -9 "${ids[@]}" 2> /dev/null || true; rm -rf "$work"' EXIT

# free_ports COUNT: prints ports on which no process listens.
free_ports() {
  python3 -c 'import socket, sys
sockets = [socket.socket() for _ in range(int(sys.argv[1]))]
for s in sockets: s.bind(("127.0.0.1", 0))
print(*(s.getsockname()[1] for s in sockets))' "$1"
}

# wait_for COMMAND...: waits until the command succeeds; the time limit only ends a hang.
wait_for() {
  local deadline=$((SECONDS + 60))
  until "$@"; do
    ((SECONDS < deadline)) || { tail -n 20 out.* >&2 || true; fail "this never held: $*"; }
    sleep 0.05
  done
}
has_lines() { [ -e "$1" ] && [ "$(wc -l < "$1")" -ge "$2" ]; }

# start_rank RANK SIZE COMMAND...: starts one of SIZE processes that connect at $port of this machine; its
# output is written to out.RANK.
start_rank() {
  local rank=$1 size=$2
  shift 2
  rm -f "out.$rank"
  RANK=$rank WORLD_SIZE=$size MASTER_ADDR=127.0.0.1 MASTER_PORT=$port "$@" > "out.$rank" 2>&1 &
  ids[rank]=$!
}

# all_end SECONDS [CODE...]: all background processes must end within the time, with these exit codes by rank.
# The code of those that a test has killed is 137.
all_end() {
  local deadline=$((SECONDS + $1)) seconds=$1 rank code
  shift
  codes=()
  for rank in "${!ids[@]}"; do
    while kill -0 "${ids[rank]}" 2> /dev/null; do
      ((SECONDS < deadline)) || { tail -n 20 out.* >&2; fail "rank $rank has not ended within $seconds s"; }
      sleep 0.05
    done
    code=0
    wait "${ids[rank]}" 2> /dev/null || code=$?
    codes+=("$code")
  done
  ids=()
  [ $# -eq 0 ] || [ "${codes[*]}" = "$*" ] || { tail -n 20 out.* >&2; fail "exit codes ${codes[*]}, not $*"; }
}

# said RANK TEXT: the output of this process must contain TEXT.
said() {
  grep -qF -- "$2" "out.$1" || { tail -n 20 out.* >&2; fail "this is missing in the output of rank $1: $2"; }
}

# expect_same_run STEPS DIRECTORY DIRECTORY: losses, evaluations and weights of both must be the same to the
# last bit.
expect_same_run() {
  expect_exit 0 "$mtf_compare" "$2" "$3"
  expect_text "same: $1 steps"
}
