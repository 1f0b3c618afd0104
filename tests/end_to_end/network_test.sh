#!/usr/bin/env bash
# Two hosts that are joined by a cable, as two network namespaces with a pair of virtual interfaces (MTU 1500): training works
# over it, with the bits of one process; a cable that is pulled out is diagnosed in time, with the name of the host that is cut
# off. Needs the rights to make namespaces; without them the test is skipped (exit code 77).
source "$2/tests/end_to_end/common.sh"
source "$source_dir/tests/end_to_end/processes.sh"

hosts=()
skip() {
  echo "skipped: $*" >&2
  exit 77
}
# make_host NUMBER: a network namespace, kept by a process that sleeps, with its own name.
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

# start_hosts DIRECTORY ARGUMENT...: a process on each host, that meet at the address of the first one.
start_hosts() {
  local number directory=$1
  shift
  for number in 0 1; do
    on_host $number env RANK=$number WORLD_SIZE=2 MASTER_ADDR=10.77.0.1 MASTER_PORT=$port "${run[@]}" run.model_dir="$directory" "$@" > out.$number 2>&1 &
    ids[number]=$!
  done
}
# step_time DIRECTORY: milliseconds, the median.
step_time() { sed 's/.*"step_ms":\([0-9.]*\).*/\1/' "$1/metrics.jsonl" | sort -g | sed -n "$((steps / 2))p"; }

# Without a secret nobody is served beyond his own machine.
start_hosts refused train.steps=$steps
all_end 30 2 2
for number in 0 1; do said $number "10.77.0.1:$port can be reached from other machines, and the processes share no secret"; done
start_hosts insecure train.steps=$steps cluster.insecure=true
all_end 60 0 0
said 0 'warning: `cluster.insecure`: anybody who can reach 10.77.0.1 can join this run'
expect_same_run $steps reference insecure

export MTF_SECRET=the-secret-of-this-test
start_hosts cable train.steps=$steps
all_end 60 0 0
said 0 "meets the others at 10.77.0.1:$port"
expect_same_run $steps reference cable

# A host that knows itself by a loopback address, as Debian installs it: the others reach it where they reach the store.
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

# The connections are those of the cable, and nothing listens but the store, where it was told to.
start_hosts addresses train.time=1h
wait_for has_lines addresses/metrics.jsonl 5
[ "$(on_host 0 ss -tlnH | awk '{ print $4 }')" = "10.77.0.1:$port" ] || fail "host 0 listens elsewhere: $(on_host 0 ss -tlnH)"
on_host 0 ss -tnH state established | grep -q '10\.77\.0\.1:[0-9]* *10\.77\.0\.2:' || fail "no connection goes over the cable: $(on_host 0 ss -tn)"

# Pulled out in the middle of it: after cluster.collective_timeout each host knows that it is the other that does not answer.
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

# A slow cable, where the kernel can delay packets: what a step takes with and without.
if on_host 0 tc qdisc add dev cable root netem delay 20ms 2> errors; then
  start_hosts slow train.steps=$steps
  all_end 120 0 0
  expect_same_run $steps reference slow
  echo "a step takes $(step_time cable) ms, with a delay of 20 ms $(step_time slow) ms"
else
  echo "no delays: $(cat errors)"
fi
