#!/usr/bin/env bash
# Tests training on two hosts, simulated by two network namespaces with a pair of virtual interfaces (MTU
# 1500): the results have the bits of one process, and a broken connection is diagnosed in time with the name
# of the lost host. The test needs the rights to make namespaces; without them it is skipped (exit code 77).
source "$2/tests/end_to_end/common.sh"
source "$source_dir/tests/end_to_end/processes.sh"

hosts=()
skip() {
  echo "skipped: $*" >&2
  exit 77
}
# make_host NUMBER: makes a network namespace with its own host name, which a sleeping process keeps.
make_host() {
  unshare --net --uts sh -c "hostname node-$1 && exec sleep 600" 2> errors &
  hosts[$1]=$!
}
on_host() {
  local number=$1
  shift
  nsenter --target "${hosts[number]}" --net --uts "$@"
}
is_ready() { [ "$(on_host "$1" hostname 2> /dev/null)" = "node-$1" ]; }
trap 'kill -9 "${ids[@]}" "${hosts[@]}" 2> /dev/null || true; rm -rf "$work"' EXIT

command -v ip > /dev/null || skip "no ip (package iproute2)"
command -v nsenter > /dev/null || skip "no nsenter"
unshare --net --uts true 2> errors || skip "no network namespaces: $(cat errors)"
for number in 0 1; do
  make_host $number
  wait_for is_ready $number
done
on_host 0 ip link add cable type veth peer name cable netns "${hosts[1]}" 2> errors || skip "no virtual interfaces: $(cat errors)"
for number in 0 1; do
  on_host $number ip address add 10.77.0.$((number + 1))/24 dev cable
  on_host $number ip link set cable mtu 1500 up
  on_host $number ip link set lo up
done

read -ra data <<< "$(mnist_data)"
steps=20 port=29500  # nobody else is in these namespaces
run=("$mtf_train" "$source_dir/configs/models/mnist_dropout.yaml" "${data[@]}" vars.hidden=256 train.batch_size=48 train.epochs=null train.log_every=1
  learning_rate=null evaluate=null run.threads=1 mesh=all:4 layout=batch:all cluster.connect_timeout=20s cluster.collective_timeout=3s)
expect_exit 0 "${run[@]}" train.steps=$steps run.model_dir=reference

# start_hosts DIRECTORY ARGUMENT...: starts a process on each host; they connect at the address of the first
# one.
start_hosts() {
  local number directory=$1
  shift
  set -- "$@" cluster.within_machine=sockets  # hosts of this test have one memory
  for number in 0 1; do
    on_host $number env RANK=$number WORLD_SIZE=2 MASTER_ADDR=10.77.0.1 MASTER_PORT=$port "${run[@]}" run.model_dir="$directory" "$@" > out.$number 2>&1 &
    ids[number]=$!
  done
}
# step_time DIRECTORY: prints the median time of a step in milliseconds.
step_time() { sed 's/.*"step_ms":\([0-9.]*\).*/\1/' "$1/metrics.jsonl" | sort -g | sed -n "$((steps / 2))p"; }

# Without a secret only processes on the same machine are served.
start_hosts refused train.steps=$steps
all_end 30 2 2
for number in 0 1; do said $number "10.77.0.1:$port can be reached from other machines, and the processes share no secret"; done
start_hosts insecure train.steps=$steps cluster.insecure=true
all_end 60 0 0
said 0 'warning: `cluster.insecure`: anybody who can reach 10.77.0.1 can join this run'
expect_same_run $steps reference insecure

# Processes of one host that number processes differently, as containers do, cannot read each other's memory.
for number in 0 1; do
  on_host 0 unshare --pid --fork env RANK=$number WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port "${run[@]}" run.model_dir=containers \
    train.steps=$steps > out.$number 2>&1 &
  ids[number]=$!
done
all_end 60 0 0
said 0 "are on one machine, but may not read each other's memory"
expect_same_run $steps reference containers

export MTF_SECRET=the-secret-of-this-test
start_hosts cable train.steps=$steps
all_end 60 0 0
said 0 "meets the others at 10.77.0.1:$port"
expect_same_run $steps reference cable

# A host whose name resolves to a loopback address, as Debian installs it, is reached at the address that
# reaches the store.
printf '127.0.0.1 localhost\n127.0.1.1 node-0\n' > names.0
printf '127.0.0.1 localhost\n192.168.77.1 node-0\n' > names.1
for number in 0 1; do
  on_host $number ip address add 192.168.77.$((number + 1))/24 dev cable
  on_host $number unshare --mount sh -c 'mount --bind "$0" /etc/hosts && exec "$@"' names.$number \
    env RANK=$number WORLD_SIZE=2 MASTER_ADDR=node-0 MASTER_PORT=$port "${run[@]}" run.model_dir=names train.steps=$steps > out.$number 2>&1 &
  ids[number]=$!
done
all_end 60 0 0
said 0 "meets the others at node-0:$port"
expect_same_run $steps reference names

# All connections use the virtual interfaces, and only the store listens, at the given address.
start_hosts addresses train.time=1h
wait_for has_lines addresses/metrics.jsonl 5
[ "$(on_host 0 ss -tlnH | awk '{ print $4 }')" = "10.77.0.1:$port" ] || fail "host 0 listens elsewhere: $(on_host 0 ss -tlnH)"
on_host 0 ss -tnH state established | grep -q '10\.77\.0\.1:[0-9]* *10\.77\.0\.2:' || fail "no connection goes over the cable: $(on_host 0 ss -tn)"

# The connection is broken during training: after cluster.collective_timeout each host reports that the other
# does not answer.
on_host 1 ip link set cable down
all_end 30 75 75
said 0 "rank 1 (node-1, process "
said 1 "rank 0 (node-0, process "
for number in 0 1; do
  python3 -c 'import json, sys; json.load(open(sys.argv[1]))' addresses/flight.rank-$number.json || fail "no flight record of rank $number"
done
echo "the cable is pulled out:"
tail -n 2 out.0 out.1
on_host 1 ip link set cable up

# A slow connection, if the kernel can delay packets: prints the time of a step with and without the delay.
if on_host 0 tc qdisc add dev cable root netem delay 20ms 2> errors; then
  start_hosts slow train.steps=$steps
  all_end 120 0 0
  expect_same_run $steps reference slow
  echo "a step takes $(step_time cable) ms, with a delay of 20 ms $(step_time slow) ms"
else
  echo "no delays: $(cat errors)"
fi
