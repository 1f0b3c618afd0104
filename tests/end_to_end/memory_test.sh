#!/usr/bin/env bash
# Tests that a run uses the memory that was planned, and that a run which exceeds run.memory_limit or the
# limit of a control group is refused before anything is written.
source "$2/tests/end_to_end/common.sh"
source "$2/tests/end_to_end/processes.sh"

cat > network.yaml << 'END'
vars: {width: 2048, more: 0}
data: {train: {type: identity, size: $width, examples: 10000, dimension: io}}
model:
  type: regression
  input: x
  target: y
  layers:
    - dense: {name: l1, output: {h1: $width}, activation: relu}
    - dense: {name: l2, output: {h2: $width}, activation: relu}
    - repeat: {name: more, times: $more, layers: [{dense: {name: odd, output: {h1: $width}}}, {dense: {name: even, output: {h2: $width}}}]}
    - dense: {name: l3, output: {h3: $width}, activation: relu}
    - dense: {name: l4, output: {io: $width}}
optimizer: adam
learning_rate: 0.0001
train: {steps: 4, batch_size: 256}
END

# planned ARGUMENT...: prints the bytes that the run of network.yaml needs in this process, according to
# explain.
planned() {
  "$mtf_train" network.yaml "$@" run.mode=explain explain.format=json > explained.json || fail "cannot explain $*"
  python3 -c 'import json; print(json.load(open("explained.json"))["memory"]["process"]["bytes"])'
}

# expect_planned NAME ARGUMENT...: the resident memory of a run must be the planned one within 5 %.
expect_planned() {
  local name=$1 plan bytes
  shift
  plan=$(planned "$@")
  bytes=$(python3 "$source_dir/tests/end_to_end/resident.py" "$mtf_train" network.yaml "$@" "run.model_dir=$name") ||
    { cat out >&2; fail "$name failed"; }
  rm -rf "$name"
  awk -v name="$name" -v plan="$plan" -v bytes="$bytes" 'BEGIN {
    printf "%-14s planned %.1f MB, resident %.1f MB (%.3f)\n", name, plan / 1e6, bytes / 1e6, bytes / plan
    exit !(plan > 3e8 && bytes > 0.95 * plan && bytes < 1.05 * plan) }' || fail "$name: the plan is not what was used"
}

expect_planned single
expect_planned large_batch train.batch_size=4096
expect_planned two_by_two "mesh=rows:2;cols:2" "layout=batch:rows;h1:cols;h3:cols"
expect_planned fsdp "mesh=all:8" layout=batch:all "parameter_layout=io:all;h2:all"
expect_planned microbatches train.microbatches=4 train.batch_size=2048
# In evaluations after a save the snapshot stays allocated, and the buffers of one data set at a time.
set="{type: identity, size: 2048, examples: 3000, dimension: io}"
expect_planned evaluation "evaluate.datasets={a: $set, b: $set}" evaluate.every=1 checkpoint.every=1 evaluate.batch_size=1024

# expect_planned_processes NAME PROCESSES SHARE FILE ARGUMENT...: the resident memory of the first process of
# a run must be the planned one within SHARE of it, other processes must not have more, and no position may
# take a tenth more than in a single process.
expect_planned_processes() {
  local name=$1 processes=$2 share=$3 file=$4 rank
  shift 4
  for count in 1 "$processes"; do
    "$mtf_train" "$file" "$@" run.mode=explain explain.format=json cluster.launcher=none "cluster.processes=$count" \
      cluster.process=0 cluster.address=localhost:1 > "explained.$count" || fail "cannot explain $name"
  done
  port=$(free_ports 1)
  for ((rank = 0; rank < processes; ++rank)); do
    mkdir -p "rank.$rank"
    (cd "rank.$rank" && RANK=$rank WORLD_SIZE=$processes MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
      python3 "$source_dir/tests/end_to_end/resident.py" "$mtf_train" "$file" "$@" "run.model_dir=$work/$name" > bytes) &
    ids[rank]=$!
  done
  for ((rank = 0; rank < processes; ++rank)); do wait "${ids[rank]}" || { cat rank.*/out >&2; fail "$name failed"; }; done
  ids=()
  rm -rf "$name"
  python3 - "$name" "$processes" "$share" << 'END' || fail "$name: the plan is not what was used"
import json, sys
name, processes, share = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
documents = [json.load(open(f"explained.{n}")) for n in (1, processes)]
one, many = (document["memory"] for document in documents)
plan = many["process"]["bytes"]
resident = [int(open(f"rank.{rank}/bytes").read()) for rank in range(processes)]
print(f"{name}: planned {plan / 1e6:.1f} MB, resident", *(f"{bytes / 1e6:.1f} MB ({bytes / plan:.3f})" for bytes in resident))
assert resident[0] > (1 - share) * plan  # other processes save less, so their snapshots are smaller
assert all(bytes < (1 + share) * plan for bytes in resident)
is_alone = documents[0]["mesh"]["positions"] == processes
for part in ("position", "process") if is_alone else ("position",):
    page = 4096
    assert many[part]["parts"]["temporaries"] <= 1.1 * one["position"]["parts"]["temporaries"] + page, (name, part)
END
}

network=$work/network.yaml
expect_planned_processes fsdp 2 0.05 "$network" "mesh=all:2" layout=batch:all "parameter_layout=io:all;h2:all"
expect_planned_processes zero 2 0.05 "$network" "mesh=all:2" layout=batch:all "optimizer_layout=io:all;h2:all"
expect_planned_processes data 2 0.05 "$network" "mesh=all:2" layout=batch:all train.microbatches=2
# A tiny run measures the memory of the processes themselves.
for count in 1 2 4; do
  expect_planned_processes tiny "$count" 0.1 "$source_dir/configs/models/toy.yaml" train.steps=20 "mesh=all:4" layout=batch:all
done

# A limit of one byte less than the plan is refused with exit code 2, and nothing is written; with the plan as
# limit it runs.
small=(vars.width=1024)
need=$(planned "${small[@]}")
ls > before
expect_exit 2 "$mtf_train" network.yaml "${small[@]}" run.model_dir=refused "run.memory_limit=$((need - 1))"
expect_text " B of memory and may take "
expect_text "(run.memory_limit)"
expect_text "\`train.batch_size: "
expect_text "optimizer slots"
expect_text 'f32 [io=1024, h1=1024]  variable `l1/kernel`'
diff <(ls | grep -v '^out$\|^before$') <(grep -v '^out$\|^before$' before) || fail "a run that was refused has written something"
bytes=$(python3 "$source_dir/tests/end_to_end/resident.py" "$mtf_train" network.yaml "${small[@]}" run.model_dir=accepted \
  "run.memory_limit=$need") || { cat out >&2; fail "a run that fits was refused"; }
[ "$bytes" -le $((need + need / 20)) ] || fail "a run that may take $need bytes took $bytes"

# The suggested change makes the run fit.
expect_exit 2 "$mtf_train" network.yaml "${small[@]}" run.model_dir=refused train.batch_size=4096 run.memory_limit=200MB
batch=$(sed -n 's/.*`train.batch_size: \([0-9]*\)`.*/\1/p' out)
expect_exit 0 "$mtf_train" network.yaml "${small[@]}" run.model_dir=smaller "train.batch_size=$batch" run.memory_limit=200MB

# A control group has room for the network but not for two more layers. (Skipped if this user cannot make
# one.)
group=
make_group() {
  local own directory
  own=$(sed -n 's/^[0-9]*:\([^:]*,\)*memory\(,[^:]*\)*://p' /proc/self/cgroup)
  for directory in "/sys/fs/cgroup/memory$own" /sys/fs/cgroup/memory "/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup)" \
    /sys/fs/cgroup; do
    group=$directory/mtf_memory_test_$$
    mkdir "$group" 2> /dev/null || continue
    for limit_file in "$group/memory.limit_in_bytes" "$group/memory.max"; do
      [ -e "$limit_file" ] && echo "$1" 2> /dev/null > "$limit_file" && (in_group true) 2> /dev/null && return 0
    done
    rmdir "$group"
  done
  return 1
}
in_group() {
  bash -c 'echo $$ > "$0/cgroup.procs" && exec "$@"' "$group" "$@"
}
# Less memory is left than a weight with its slots and its snapshot needs.
limit=$((need + 8000000))
if make_group "$limit"; then
  trap 'rmdir "$group"; rm -rf "$work"' EXIT
  expect_exit 1 in_group "$mtf_train" network.yaml "${small[@]}" vars.more=1 run.model_dir=refused
  expect_text "control group $group"
  [ ! -e refused ] || fail "a run that was refused has written something"
  expect_exit 0 in_group "$mtf_train" network.yaml "${small[@]}" run.model_dir=in_group
  expect_text "finished after"
else
  echo "no control group can be made here: that part is left to tests/trainer/available_memory_test.cc"
fi
