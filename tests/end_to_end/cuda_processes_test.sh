#!/usr/bin/env bash
# Tests runs over several processes with an emulated GPU each: over NCCL (also emulated) and over Gloo they
# equal the run of one GPU that has all positions. The collective backend is printed and follows
# `cluster.collectives`. A killed process ends all others.
source "$2/tests/end_to_end/common.sh"
source "$source_dir/tests/end_to_end/processes.sh"
use_emulated_gpu
export MTF_EMULATED_DEVICES=4
source "$source_dir/tests/end_to_end/device_models.sh"
echo "evaluate: {every: 2, datasets: {dev: {type: text, path: dev.en}}}" >> lm.yaml
mnist+=(evaluate=null)
layouts=$source_dir/configs/layouts
nccl="collectives: emulated NCCL, from GPU to GPU"

# one DIRECTORY ARGUMENT...: runs all positions on one GPU.
one() {
  local directory=$1
  shift
  expect_exit 0 "$mtf_train" "$@" train.steps=4 devices=cuda:0*4 run.model_dir="$directory"
}
# four DIRECTORY LINE ARGUMENT...: runs four processes; the log must contain LINE.
four() {
  local directory=$1 line=$2
  shift 2
  expect_exit 0 timeout 300 "$mtf_launch" -n 4 -- "$mtf_train" "$@" train.steps=4 run.model_dir="$directory"
  expect_text "$line"
}
sent_by_a_process() { sed -n 's/.*sent by a process to others in a step: //p' out; }

for layout in data_parallel_4 model_parallel_4 data_and_model_parallel_4 fsdp_4 zero1_4; do
  one $layout "$layouts/$layout.yaml" "${mnist[@]}"
  four $layout-nccl "$nccl" "$layouts/$layout.yaml" "${mnist[@]}" devices=cuda
  agree $layout-nccl $layout
  # A process sends as many bytes as explain predicts.
  sent=$(sent_by_a_process)
  expect_exit 0 "$mtf_train" "$layouts/$layout.yaml" "${mnist[@]}" run.mode=explain
  expect_text "$sent sent by a position in "
done

# Processes take the algorithms that one of them has measured.
four tuned "$nccl" "$layouts/data_parallel_4.yaml" "${mnist[@]}" devices=cuda run.tune=true
[ "$(cat tuned/log*.txt | grep -c "us by algorithm")" = "$(grep -c '": [01]' tuned/algorithms.json)" ] || fail "not each product was measured once"
mkdir tuned-again
cp tuned/algorithms.json tuned-again/
four tuned-again "$nccl" "$layouts/data_parallel_4.yaml" "${mnist[@]}" devices=cuda run.tune=true
expect_same_run 4 tuned tuned-again

# Collectives through the host give the same sums as one GPU.
four gloo 'collectives: Gloo, through the host (rank 0: `cluster.collectives: gloo`)' "$layouts/data_and_model_parallel_4.yaml" "${mnist[@]}" \
  devices=cuda cluster.collectives=gloo
expect_same_run 4 data_and_model_parallel_4 gloo
four shared "collectives: Gloo, through the host (ranks 0 and 1 share GPU 0000:01:00.0)" "$layouts/fsdp_4.yaml" "${mnist[@]}" devices=cuda:0
expect_same_run 4 fsdp_4 shared
expect_exit 2 timeout 100 "$mtf_launch" -n 4 -- "$mtf_train" "$layouts/fsdp_4.yaml" "${mnist[@]}" train.steps=4 devices=cuda:0 cluster.collectives=nccl
expect_text '`cluster.collectives: nccl` cannot be (ranks 0 and 1 share GPU 0000:01:00.0); `auto`, or `gloo`'

# NCCL for processes that share a GPU is a switch of the tests.
MTF_NCCL_SHARED_GPU=1 four shared-nccl "$nccl (MTF_NCCL_SHARED_GPU=1: only for tests)" "$layouts/fsdp_4.yaml" "${mnist[@]}" devices=cuda:0
agree shared-nccl fsdp_4

# A process that sees one GPU takes it: its own, as launchers show it, or one that all share.
port=$(free_ports 1)
for rank in 0 1 2 3; do
  CUDA_VISIBLE_DEVICES=$rank LOCAL_RANK=$rank LOCAL_WORLD_SIZE=4 start_rank $rank 4 "$mtf_train" "$layouts/data_parallel_4.yaml" "${mnist[@]}" \
    train.steps=4 devices=cuda run.model_dir=own
done
all_end 100 0 0 0 0
said 0 "$nccl"
agree own data_parallel_4
MTF_EMULATED_DEVICES=1 four one-for-all "collectives: Gloo, through the host (ranks 0 and 1 share GPU 0000:01:00.0)" "$layouts/fsdp_4.yaml" \
  "${mnist[@]}" devices=cuda
expect_same_run 4 fsdp_4 one-for-all
MTF_EMULATED_DEVICES=2 expect_exit 2 timeout 100 "$mtf_launch" -n 4 -- "$mtf_train" "$layouts/fsdp_4.yaml" "${mnist[@]}" devices=cuda
expect_text "4 processes on this machine have 2 GPUs"

# Without CUDA graphs in one of the processes none of them records, nor where a recording fails in one.
for variable in MTF_CUDA_GRAPHS=0 MTF_EMULATED_FAULT=graph; do
  port=$(free_ports 1)
  for rank in 0 1 2 3; do
    if [ $rank = 1 ]; then own=$variable; else own=NOTHING=; fi
    start_rank $rank 4 env "$own" "$mtf_train" "$layouts/data_parallel_4.yaml" "${mnist[@]}" train.steps=4 devices="cuda:$rank" run.model_dir=graphs-$variable
  done
  all_end 100 0 0 0 0
  agree graphs-$variable data_parallel_4
done
grep -q "steps run without CUDA graphs" graphs-MTF_EMULATED_FAULT=graph/log.rank-1.txt || fail "rank 1 does not tell that a recording failed"

port=$(free_ports 1)
for rank in 0 1; do
  MTF_EMULATED_NCCL=2.2$((7 + rank)) start_rank $rank 2 "$mtf_train" "$layouts/data_parallel_4.yaml" "${mnist[@]}" train.steps=4 \
    "devices=[cuda:0*2, cuda:1*2]" run.model_dir=versions
done
all_end 100 0 0
said 0 "collectives: Gloo, through the host (rank 1 has emulated NCCL 2.28, rank 0 emulated NCCL 2.27)"
expect_same_run 4 data_parallel_4 versions

# Each process may have several positions. launch PROCESSES POSITIONS ARGUMENT...: runs mtf-train in PROCESSES
# processes with POSITIONS positions each.
launch() {
  local processes=$1 positions=$2 devices="" i
  shift 2
  for ((i = 0; i < processes; i++)); do devices+="${devices:+, }cuda:$i*$positions"; done
  expect_exit 0 timeout 300 "$mtf_launch" -n "$processes" -- "$mtf_train" "$@" "devices=[$devices]"
}
# several PROCESSES POSITIONS DIRECTORY ARGUMENT...: starts a run, over NCCL unless an argument says
# otherwise; it must send the bytes that explain predicts.
several() {
  local processes=$1 positions=$2 directory=$3 sent
  shift 3
  launch "$processes" "$positions" "$@" train.steps=4 run.model_dir="$directory"
  [[ "$*" == *collectives=gloo* ]] || expect_text "$nccl"
  sent=$(sent_by_a_process)
  launch "$processes" "$positions" "$@" run.mode=explain
  expect_text "$sent sent by a process to others"
}
# gpu_memory DIRECTORY: prints the GPU memory that the first process has allocated, in bytes.
gpu_memory() { sed -n '$s/.*"memory_bytes":\([0-9]*\).*/\1/p' "$1/metrics.jsonl"; }
# explained_memory LINE: prints the bytes of a line of the last explanation, for the whole process.
explained_memory() { sed -n "s/.*\"$1\": *\([0-9]*\).*/\1/p" out | tail -n 1; }
# scratch_as_explained PROCESSES POSITIONS DIRECTORY ARGUMENT...: the memory of the run in DIRECTORY must
# differ from that of a run over Gloo as explain predicts: by scratch memory, and by other temporaries, since
# fewer collectives are in flight if each needs scratch memory.
scratch_as_explained() {
  local processes=$1 positions=$2 directory=$3 measured explained
  shift 3
  several "$processes" "$positions" "$directory-gloo" "$@" cluster.collectives=gloo
  measured=$(($(gpu_memory "$directory") - $(gpu_memory "$directory-gloo")))
  launch "$processes" "$positions" "$@" run.mode=explain explain.format=json
  explained=$(($(explained_memory "scratch of collectives between GPUs") + $(explained_memory temporaries)))
  launch "$processes" "$positions" "$@" run.mode=explain explain.format=json cluster.collectives=gloo
  explained=$((explained - $(explained_memory temporaries)))
  # Temporaries are rounded to whole pages in the plan. Explain tells of the process that needs most: the first one may need
  # less where processes hold unlike parts of the mesh (unlike=1).
  local more=$((explained - measured))
  if [ $more -le -8192 ] || { [ -z "${unlike:-}" ] && [ $more -ge 8192 ]; }; then
    fail "$directory: $measured bytes more than over Gloo, explain says $explained"
  fi
}
for layout in data_parallel_4 model_parallel_4 data_and_model_parallel_4 fsdp_4 zero1_4; do
  several 2 2 $layout-two "$layouts/$layout.yaml" "${mnist[@]}"
  agree $layout-two $layout
done
scratch_as_explained 2 2 fsdp_4-two "$layouts/fsdp_4.yaml" "${mnist[@]}"
scratch_as_explained 2 2 zero1_4-two "$layouts/zero1_4.yaml" "${mnist[@]}"
scratch_as_explained 4 1 zero1_4-nccl "$layouts/zero1_4.yaml" "${mnist[@]}"
eight=("${mnist[@]}" "mesh=data:4;model:2" "layout=batch:data;hidden:model" parameter_layout=rows:data)
expect_exit 0 "$mtf_train" "${eight[@]}" train.steps=4 devices=cuda:0*8 run.model_dir=eight
several 2 4 eight-two "${eight[@]}"
agree eight-two eight
# Mesh rows of three positions are spread over processes of two positions.
uneven=("${mnist[@]}" "mesh=rows:2;cols:3" "layout=batch:rows;hidden:cols")
expect_exit 0 "$mtf_train" "${uneven[@]}" train.steps=4 devices=cuda:0*6 run.model_dir=six
several 3 2 six-three "${uneven[@]}"
agree six-three six
unlike=1 scratch_as_explained 3 2 six-three "${uneven[@]}"

# A language model runs with bfloat16, microbatches, comparison of all replicas, and without overlap.
lm=(lm.yaml "mesh=rows:2;cols:2" "layout=batch:rows;heads:cols;d_ff:cols;vocab:cols" parameter_layout=d_model:rows)
one microbatches "${lm[@]}" train.ema_decay=0.9 train.microbatches=2
four microbatches-nccl "$nccl" "${lm[@]}" train.ema_decay=0.9 train.microbatches=2 devices=cuda
agree microbatches-nccl microbatches
four replicas-nccl "$nccl" "${lm[@]}" train.ema_decay=0.9 train.microbatches=2 devices=cuda run.check_replicas=true cluster.overlap=false
agree replicas-nccl microbatches
one bfloat16 "${lm[@]}" precision.activation=bfloat16
four bfloat16-nccl "$nccl" "${lm[@]}" precision.activation=bfloat16 devices=cuda
agree bfloat16-nccl bfloat16 1e-3
several 2 2 microbatches-two "${lm[@]}" train.ema_decay=0.9 train.microbatches=2
agree microbatches-two microbatches
several 2 2 replicas-two "${lm[@]}" train.ema_decay=0.9 train.microbatches=2 run.check_replicas=true cluster.overlap=false
agree replicas-two microbatches
several 2 2 bfloat16-two "${lm[@]}" precision.activation=bfloat16
agree bfloat16-two bfloat16 1e-3
scratch_as_explained 2 2 bfloat16-two "${lm[@]}" precision.activation=bfloat16
scratch_as_explained 4 1 bfloat16-nccl "${lm[@]}" precision.activation=bfloat16
one length lm.yaml "mesh=rows:2;depth:2" "layout=batch:rows;length:depth"
four length-nccl "$nccl" lm.yaml "mesh=rows:2;depth:2" "layout=batch:rows;length:depth" devices=cuda
agree length-nccl length

# Without a launcher a process is started for each GPU. The run resumes one that a single GPU has begun,
# evaluates, and generates texts.
expect_exit 0 timeout 100 "$mtf_train" lm.yaml mesh=all:4 layout=batch:all devices=cuda train.steps=2 run.model_dir=alone
expect_text "$nccl"
expect_exit 0 "$mtf_train" alone/config.yaml train.steps=4 devices=cuda:0*4
one whole lm.yaml mesh=all:4 layout=batch:all
agree alone whole
expect_exit 0 timeout 100 "$mtf_train" whole/config.yaml run.mode=evaluate devices=cuda
expect_text "$nccl"
sed -n 's/.*"loss":\([^,]*\),.*/\1/p' out > a
"$mtf_train" whole/config.yaml run.mode=evaluate devices=cuda:0*4 2> errors | sed 's/.*"loss":\([^,]*\),.*/\1/' > b || fail "$(cat errors)"
expect_close a b 1e-5
# SIGTERM to the process that has started the others stops all after a checkpoint, also where the driver has threads.
MTF_EMULATED_DRIVER_THREAD=1 "$mtf_train" lm.yaml mesh=all:2 layout=batch:all devices=cuda train.time=1h evaluate=null run.model_dir=stopped > out.0 2>&1 &
ids=($!)
wait_for has_lines stopped/metrics.jsonl 3
kill -TERM "${ids[0]}"
all_end 60 143
[ -n "$(ls -d stopped/checkpoints/step-* 2> /dev/null)" ] || fail "no checkpoint after SIGTERM: $(cat out.0)"
head -n 6 dev.en > lines
for devices in cuda cuda:0*4; do
  expect_exit 0 timeout 100 "$mtf_train" whole/config.yaml run.mode=infer infer.input=lines infer.output=texts.$devices devices=$devices
done
cmp texts.cuda "texts.cuda:0*4" || fail "other texts on four GPUs"

# --- If a process is killed the others end at once, and name it.
for positions in 1 2; do
  port=$(free_ports 1)
  for rank in 0 1 2 3; do
    start_rank $rank 4 "$mtf_train" "${mnist[@]}" mesh=all:$((4 * positions)) layout=batch:all \
      "devices=[cuda:0*$positions, cuda:1*$positions, cuda:2*$positions, cuda:3*$positions]" train.time=1h evaluate=null \
      run.model_dir=killed-$positions
  done
  wait_for has_lines killed-$positions/metrics.jsonl 3
  victim=${ids[2]}
  kill -9 "$victim"
  all_end 20 75 75 137 75
  for rank in 0 1 3; do said $rank "rank 2 ($(hostname), process $victim) was lost"; done
done
