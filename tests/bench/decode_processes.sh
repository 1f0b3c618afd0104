#!/usr/bin/env bash
# Milliseconds per token of one text at a time (batch 1) from a language model that is bound by memory: on one position, on
# two positions of one process, and on two processes of one position each; split by heads, d_ff and vocab, one thread for each
# position. Runs take turns and must write the same texts; the first text of each warms it up and does not count.
#   tests/bench/decode_processes.sh [build/bin/mtf-train] [RUNS]
set -euo pipefail
cd "$(dirname "$0")/../.."
mtf_train=$(realpath "${1:-build/bin/mtf-train}")
runs=${2:-5}
config=$(realpath tests/bench/decode_processes.yaml)
work=$(mktemp -d)
trap 'kill $(jobs -p) 2> /dev/null || true; rm -rf "$work"' EXIT
cd "$work"

seq 1 2000 > train.txt
"$mtf_train" "$config" run.model_dir=run > trained 2>&1 || { cat trained >&2; exit 1; }
mkfifo lines answers
split="mesh=x:2 layout=heads:x;d_ff:x;vocab:x"

free_port() {
  python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}
infer() {
  "$mtf_train" run/config.yaml run.mode=infer infer.format=jsonl "$@"
}
# measure NAME ARGUMENT...: two texts to NAME.jsonl, milliseconds per token of the second to NAME.ms.
measure() {
  local name=$1 begin end first second
  shift
  infer "$@" < lines > answers 2> said &
  exec 3> lines 4< answers
  echo 12 >&3
  read -r first <&4 || { cat said >&2; exit 1; }
  begin=$EPOCHREALTIME
  echo 345 >&3
  read -r second <&4 || { cat said >&2; exit 1; }
  end=$EPOCHREALTIME
  exec 3>&- 4<&-
  wait $!
  printf '%s\n' "$first" "$second" > "$name.jsonl"
  python3 -c 'import json, sys; print((float(sys.argv[2]) - float(sys.argv[1])) * 1000 / len(json.loads(sys.argv[3])["pieces"]))' \
    "$begin" "$end" "$second" >> "$name.ms"
}
measure_two_processes() {
  export WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT
  MASTER_PORT=$(free_port)
  RANK=1 infer "${@:2}" > other 2>&1 < /dev/null &
  RANK=0 measure "$@"
  wait
}

for ((run = 0; run < runs; run++)); do
  measure one_position run.threads=1
  measure one_position_two_threads run.threads=2
  measure two_positions run.threads=2 $split
  (measure_two_processes two_processes run.threads=1 $split)
done
for name in one_position one_position_two_threads two_positions two_processes; do
  python3 - $name << 'PYTHON'
import json, statistics, sys
name = sys.argv[1]
def texts(of):
    return [json.loads(line)["pieces"] for line in open(of + ".jsonl")]
assert texts(name) == texts("one_position"), f"{name} writes other texts"
times = [float(line) for line in open(name + ".ms")]
print(f"{name}: {statistics.median(times):.2f} ms per token ({min(times):.2f} to {max(times):.2f}, {len(times)} runs)")
PYTHON
done
