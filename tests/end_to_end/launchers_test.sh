#!/usr/bin/env bash
# Tests that two processes are the same run however they are started: by hand, by mtf-launch, mpirun, torchrun
# (if these are installed), from section `cluster`, from TF_CONFIG, and in the environments of Slurm, PMI,
# OpenMPI and Kubernetes. The source of the decision is printed. An incomplete environment and positions that
# cannot be shared evenly are errors with exit code 2 and one line.
source "$2/tests/end_to_end/common.sh"
source "$source_dir/tests/end_to_end/processes.sh"
read -ra data <<< "$(mnist_data)"
steps=3
options=("${data[@]}" vars.hidden=32 train.batch_size=40 train.epochs=null train.steps=$steps train.log_every=1 evaluate=null run.threads=1
  mesh=all:2 layout=batch:all cluster.connect_timeout=20s cluster.collective_timeout=20s)
run=("$mtf_train" "$source_dir/configs/models/mnist_dropout.yaml" "${options[@]}")
expect_exit 0 "${run[@]}" run.model_dir=reference

# by_hand NAME SOURCE COMMAND...: starts two processes with what `environment` and `arguments` print for a
# rank; process 0 must print SOURCE as the source of its decision.
by_hand() {
  local name=$1 source=$2 rank
  for rank in 0 1; do
    local -a variables=() words=()
    read -ra variables <<< "$("environment_$name" $rank)"
    read -ra words <<< "$("arguments_$name" $rank 2> /dev/null || true)"
    env "${variables[@]}" "${run[@]}" "${words[@]}" run.model_dir="$name" > "out.$rank" 2>&1 &
    ids[rank]=$!
  done
  all_end 60 0 0
  said 0 "$source"
  expect_same_run $steps reference "$name"
}
# together NAME SOURCE LAUNCHER...: starts two processes with a launcher.
together() {
  local name=$1 source=$2
  shift 2
  expect_exit 0 timeout 60 "$@" "${run[@]}" run.model_dir="$name"
  expect_text "$source"
  expect_same_run $steps reference "$name"
}

together launched "process 0 of 2 (mtf-launch: RANK, WORLD_SIZE)" "$mtf_launch" -n 2 --
! command -v torchrun > /dev/null ||
  together torchrun "process 0 of 2 (torchrun: RANK, WORLD_SIZE)" torchrun --standalone --no-python --nproc-per-node 2
if command -v mpirun > /dev/null; then
  mpirun=(mpirun --oversubscribe -n 2)
  [ "$(id -u)" -ne 0 ] || mpirun+=(--allow-run-as-root)
  together openmpi "process 0 of 2 (OpenMPI: OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE)" "${mpirun[@]}"
fi

read -r port other_port more_ports <<< "$(free_ports 12)"
meeting="MASTER_ADDR=127.0.0.1 MASTER_PORT"
environment_hand() { echo "RANK=$1 WORLD_SIZE=2 $meeting=$port"; }
by_hand hand "process 0 of 2 (environment: RANK, WORLD_SIZE); meets the others at 127.0.0.1:$port"

next_port() { read -r port more_ports <<< "$more_ports"; }
next_port
environment_cluster() { :; }
arguments_cluster() { echo "cluster.address=127.0.0.1:$port cluster.processes=2 cluster.process=$1"; }
by_hand cluster 'process 0 of 2 (`cluster.process`)'

# The section may name tasks; the chief is rank 0, whatever its position.
next_port
cat > jobs.yaml << YAML
cluster:
  jobs:
    worker: ["127.0.0.1:$other_port"]
    chief: ["127.0.0.1:$port"]
YAML
environment_jobs() { :; }
arguments_jobs() { [ "$1" = 0 ] && echo "cluster.job=chief" || echo "cluster.job=worker cluster.task=0"; }
plain=("${run[@]}")
run=("${plain[@]:0:2}" jobs.yaml "${options[@]}")
by_hand jobs 'process 0 of 2 (chief 0: `cluster.jobs`)'
run=("${plain[@]}")

next_port
environment_tensorflow() {
  local task='"worker","index":0'
  [ "$1" = 1 ] || task='"chief","index":0'
  echo "TF_CONFIG={\"cluster\":{\"worker\":[\"127.0.0.1:$other_port\"],\"chief\":[\"127.0.0.1:$port\"]},\"task\":{\"type\":$task}}"
}
by_hand tensorflow 'process 0 of 2 (chief 0: TF_CONFIG)'

next_port
environment_slurm() {
  echo "SLURM_JOB_ID=77 SLURM_STEP_ID=0 SLURM_NTASKS=2 SLURM_PROCID=$1 SLURM_LOCALID=$1 SLURM_TASKS_PER_NODE=2 SLURM_JOB_NODELIST=localhost $meeting=$port"
}
by_hand slurm "process 0 of 2 (Slurm: SLURM_PROCID, SLURM_NTASKS)"

next_port
environment_pmi() { echo "PMI_SIZE=2 PMI_RANK=$1 $meeting=$port"; }
by_hand pmi "process 0 of 2 (PMI: PMI_RANK, PMI_SIZE)"

next_port
environment_mpi() {
  echo "OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=$1 OMPI_COMM_WORLD_LOCAL_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=$1 $meeting=$port"
}
by_hand mpi "process 0 of 2 (OpenMPI: OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE)"

next_port
environment_kubernetes() { echo "JOB_COMPLETION_INDEX=$1 WORLD_SIZE=2 $meeting=$port"; }
by_hand kubernetes "process 0 of 2 (Kubernetes: JOB_COMPLETION_INDEX, WORLD_SIZE)"

# A process runs alone if the configuration says so, whatever a launcher says, and also in a shell of Slurm.
expect_exit 0 env RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=1 "${run[@]}" cluster.processes=1 run.model_dir=alone
expect_same_run $steps reference alone
expect_exit 0 env SLURM_JOB_ID=77 SLURM_NTASKS=2 "${run[@]}" run.model_dir=shell
expect_exit 0 env RANK=1 WORLD_SIZE=2 "${run[@]}" cluster.launcher=none run.model_dir=none

# mistake TEXT [VARIABLE=VALUE...] [-- ARGUMENT...]: expects exit code 2 and one line (with its place) that
# contains TEXT.
mistake() {
  local text=$1 variables=()
  shift
  while [ $# -gt 0 ] && [ "$1" != -- ]; do
    variables+=("$1")
    shift
  done
  expect_exit 2 timeout 30 env "${variables[@]}" "${run[@]}" run.model_dir=mistake "${@:2}"
  expect_text "$text"
  [ ! -e mistake ] || fail "a run that is a mistake has written something: $text"
}
mistake "RANK is set, and WORLD_SIZE is not" RANK=0
mistake "WORLD_SIZE is set, and RANK is not" WORLD_SIZE=2
mistake "MASTER_ADDR is not" RANK=0 WORLD_SIZE=2
mistake "MASTER_ADDR is set, and MASTER_PORT is not" RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1
mistake "RANK is 2, and WORLD_SIZE is 2" RANK=2 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=1
mistake "MASTER_PORT are \`127.0.0.1\` and \`x\`" RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=x
mistake "OMPI_COMM_WORLD_RANK is set, and OMPI_COMM_WORLD_SIZE is not" OMPI_COMM_WORLD_RANK=0
mistake "the environment variable RANK is \`1\`, and OpenMPI says 0" OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 RANK=1
mistake "PMI_RANK and PMI_SIZE do not say where the processes meet" PMI_RANK=0 PMI_SIZE=2
mistake "TF_CONFIG is no JSON" TF_CONFIG=worker
mistake "TF_CONFIG has \`cluster\` and no \`task\`" 'TF_CONFIG={"cluster":{"worker":["a:1","b:1"]}}'
mistake '`cluster.address` is missing' -- cluster.processes=2 cluster.process=0
mistake '`cluster.process` is 2, and `cluster.processes` is 2' -- cluster.processes=2 cluster.process=2 cluster.address=127.0.0.1:1
mistake '`cluster.address`: `here` is no address' -- cluster.processes=2 cluster.process=0 cluster.address=here
mistake 'which of its tasks this process is' -- "cluster.jobs={worker: [a:1, b:1]}"
mistake 'has no job `wroker`; did you mean `worker`?' -- "cluster.jobs={worker: [a:1, b:1]}" cluster.job=wroker
mistake "its environment variables (SLURM_PROCID, SLURM_NTASKS, SLURM_STEP_ID) are not set" -- cluster.launcher=slurm

# The positions of the mesh must be shared evenly; the error lists the possible numbers.
for processes in 3 4; do
  expect_exit 2 "$mtf_launch" -n $processes -- "${run[@]}" mesh=all:10 layout=batch:all run.model_dir=mistake
  expect_text "\`mesh\` has 10 positions, which $processes processes cannot share evenly"
  expect_text "for this mesh: 1 process with 10, 2 with 5, 5 with 2, 10 with 1"
done
expect_exit 2 "$mtf_launch" -n 2 -- "${run[@]}" "devices=cpu*4" run.model_dir=mistake
expect_text "\`mesh\` has 2 positions, and 2 processes with 4 each have 8"
