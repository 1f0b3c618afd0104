#!/usr/bin/env bash
# Tests that strangers who can reach the ports of a run neither end it nor change a bit of it: floods of
# connections, slowly dripping bytes, forged failures, connections in place of a peer; at mtf-launch's store,
# at that of process 0, at torchrun's, at parameter servers. A process with another secret is told so, and
# without a secret only this machine is served.
source "$2/tests/end_to_end/common.sh"
source "$source_dir/tests/end_to_end/processes.sh"
strangers="$source_dir/tests/end_to_end/strangers.py"
read -ra data <<< "$(mnist_data)"
steps=30
run=("$mtf_train" "$source_dir/configs/models/mnist_dropout.yaml" "${data[@]}" vars.hidden=32 train.batch_size=60 train.epochs=null
  train.steps=$steps train.log_every=1 learning_rate=null evaluate=null run.threads=1 mesh=all:3 layout=batch:all
  cluster.connect_timeout=30s cluster.collective_timeout=30s)
expect_exit 0 "${run[@]}" run.model_dir=reference

attackers=()
trap 'kill -9 "${ids[@]}" "${attackers[@]}" 2> /dev/null || true; rm -rf "$work"' EXIT
# attack ARGUMENT...: starts a stranger, which runs until peace().
attack() {
  python3 "$strangers" "$@" >> attacks 2>&1 &
  attackers+=($!)
}
peace() {
  kill -9 "${attackers[@]}" 2> /dev/null || true
  wait "${attackers[@]}" 2> /dev/null || true
  attackers=()
}
# Rank 2 starts after the strangers, which connect to every port of the other ranks.
held='echo $$ > number.$RANK; [ $RANK != 2 ] || while [ ! -e strangers ]; do sleep 0.02; done; exec "$@"'
attack_ranks() {
  wait_for [ -s number.1 ]
  wait_for [ -s number.0 ]
  wait_for [ -s number.2 ]
  attack crowd "$(cat number.0)" "$(cat number.1)" "$(cat number.2)"
  attack flood "127.0.0.1:$1" 1100
  attack forge "127.0.0.1:$1"
  wait_for grep -q "^watches $(cat number.0) " attacks
  sleep 0.5
}

# --- mtf-launch makes a new secret for each run.
"$mtf_launch" -n 3 -- sh -c 'echo $MASTER_PORT $MTF_SECRET > meeting; '"$held" sh "${run[@]}" run.model_dir=launched > out.0 2>&1 &
ids=($!)
wait_for [ -s meeting ]
read -r port secret < meeting
[ ${#secret} = 64 ] || fail "mtf-launch has not made a secret: $secret"
attack_ranks "$port"
touch strangers
all_end 60 0
peace
expect_same_run $steps reference launched
grep -q "^connects to" attacks || fail "no stranger has found a port: $(cat attacks)"

# --- Processes started by hand, with a secret in a file, listen only at the given address.
rm -f number.* strangers
openssl rand -hex 32 > secret 2> /dev/null || head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n' > secret
port=$(free_ports 1)
for rank in 0 1 2; do start_rank $rank 3 sh -c "$held" sh "${run[@]}" run.model_dir=by_hand cluster.secret_file=secret; done
attack_ranks "$port"
is_served() { python3 -c 'import socket, sys; socket.create_connection(("127.0.0.1", int(sys.argv[1])), 1)' "$port" 2> /dev/null; }
wait_for is_served
python3 - "$port" << 'PYTHON' || fail "the store listens at more than 127.0.0.1"
import sys
port = int(sys.argv[1])
for table in ("tcp", "tcp6"):
    for line in open("/proc/net/" + table).read().splitlines()[1:]:
        address, state = line.split()[1], line.split()[3]
        if state == "0A" and int(address.split(":")[1], 16) == port:
            assert address.startswith("0100007F:"), line
PYTHON
# Processes with another secret, or none, are told so.
for wrong in "env MTF_SECRET=0123456789abcdef0123456789abcdef" "env"; do
  code=0
  # shellcheck disable=SC2086
  RANK=1 WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port $wrong "${run[@]}" run.model_dir=other > out 2>&1 || code=$?
  [ $code = 2 ] || { cat out; fail "a process with another secret ends with exit code $code"; }
  expect_text "the rendezvous store at 127.0.0.1:$port has another secret than this process"
done
touch strangers
all_end 60 0 0 0
peace
expect_same_run $steps reference by_hand

# --- A store to which everybody can write, like torchrun's: forged entries are not believed.
python3 "$strangers" store > store.port &
attackers+=($!)
wait_for [ -s store.port ]
port=$(cat store.port)
export MTF_SECRET=the-secret-of-this-test
for rank in 0 1 2; do
  start_rank $rank 3 env TORCHELASTIC_USE_AGENT_STORE=True TORCHELASTIC_RUN_ID=none TORCHELASTIC_RESTART_COUNT=0 "${run[@]}" \
    run.model_dir=torchrun
done
all_end 60 0 0 0
peace
unset MTF_SECRET
said 0 "(torchrun: RANK, WORLD_SIZE)"
expect_same_run $steps reference torchrun

# --- Parameter servers.
rm -f server strangers
"$mtf_launch" --job ps=1 --job worker=2 -- sh -c 'case $TF_CONFIG in
    *\"type\":\"ps\"*) echo ${TF_CONFIG#*\"ps\":[\"} > server ;;
    *) while [ ! -e strangers ]; do sleep 0.02; done ;;
  esac; exec "$@"' sh "${run[@]}" mesh=all:2 run.model_dir=served "train.strategy={type: parameter_server, mode: sync}" > out.0 2>&1 &
ids=($!)
wait_for [ -s server ]
address=$(sed 's/".*//' server)
wait_for grep -q "listens at $address" out.0
attack flood "$address" 400
attack forge "$address"
sleep 0.5
touch strangers
all_end 60 0
peace
expect_exit 0 "${run[@]}" mesh=all:2 run.model_dir=two
expect_same_run $steps two served

# --- Other machines need a secret, or the explicit setting that none is required.
far=(cluster.address=192.0.2.1:29500 cluster.processes=3)
for process in 0 1; do
  expect_exit 2 timeout 20 "${run[@]}" run.model_dir=far "${far[@]}" cluster.process=0
  expect_text "192.0.2.1:29500 can be reached from other machines, and the processes share no secret"
  expect_text 'MTF_SECRET in the environment of all processes, or `cluster.secret_file`'
done
expect_exit 1 timeout 20 "${run[@]}" run.model_dir=far "${far[@]}" cluster.process=0 cluster.insecure=true cluster.connect_timeout=1s
expect_text 'warning: `cluster.insecure`: anybody who can reach 192.0.2.1 can join this run'
expect_text "Cannot assign requested address; an address that this machine has"
expect_exit 2 "${run[@]}" run.model_dir=far "${far[@]}" cluster.process=0 cluster.secret_file=no-such-file
expect_text '`cluster.secret_file`: `no-such-file` cannot be read (No such file or directory)'
MTF_SECRET=short expect_exit 2 "${run[@]}" run.model_dir=far "${far[@]}" cluster.process=0
expect_text "the environment variable MTF_SECRET has a secret of 5 characters, which can be guessed"
[ ! -e far ] || fail "a run that was refused has left a directory"
echo "strangers_test: passed"
