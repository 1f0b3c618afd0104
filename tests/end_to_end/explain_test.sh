#!/usr/bin/env bash
# Tests run.mode=explain: nothing is written, the numbers are those that a run counts, the JSON document is
# valid, and a model of a billion parameters on 512 positions is explained quickly.
source "$2/tests/end_to_end/common.sh"
read -ra data <<< "$(mnist_data)"
models=$source_dir/configs/models layouts=$source_dir/configs/layouts
mnist=("${data[@]}" train.batch_size=48 train.epochs=null)
toy=("$models/toy.yaml" vars.more_pairs=4)

# compare_with_run NAME ARGUMENT...: the FLOPs and bytes of the JSON document must be those that three steps
# count.
compare_with_run() {
  local name=$1
  shift
  expect_exit 0 "$mtf_train" "$@" train.steps=3 "run.model_dir=$name"
  grep -h "counted in a step" out > counted
  "$mtf_train" "$@" train.steps=3 run.mode=explain explain.format=json > explained.json 2> errors ||
    fail "$name cannot be explained: $(cat errors)"
  [ ! -s errors ] || fail "explain writes to standard error: $(cat errors)"
  python3 - "$name" << 'END' || fail "$name: explain says something else than the run"
import json, re, sys
document = json.load(open("explained.json"))
counted = re.search(r"([\d.]+) MFLOP in contractions, ([\d.]+) (\w+) sent", open("counted").read())
unit = {"B": 1, "KB": 1e3, "MB": 1e6}[counted[3]]
step = document["step"]
assert abs(step["flops"] / 1e6 - float(counted[1])) < 1e-4, (step, counted[0])
assert abs(step["bytes_sent"] - float(counted[2]) * unit) <= 6e-4 * step["bytes_sent"], (step, counted[0])
assert sum(c["bytes_sent"] * c["times"] for c in document["collectives"]) == step["bytes_sent"]
assert document["memory"]["position"]["fits"] and document["memory"]["process"]["fits"]
END
}
for layout in single data_parallel_4 model_parallel_4 data_and_model_parallel_4 fsdp_4 zero1_4; do
  compare_with_run "mnist-$layout" "$models/mnist.yaml" "$layouts/$layout.yaml" "${mnist[@]}"
done
compare_with_run toy-microbatches "$models/toy.yaml" "$layouts/fsdp_4.yaml" vars.more_pairs=4 train.microbatches=4

# No file is created, whatever run.model_dir says.
touch before && ls > before
expect_exit 0 "$mtf_train" "$models/mnist.yaml" "$layouts/fsdp.yaml" "${mnist[@]}" run.mode=explain run.model_dir=new
ls > after
diff before <(grep -v '^after$' after) || fail "explain has written something"

# The text for people ends with the verdict on memory and names an unused mesh dimension.
expect_exit 0 "$mtf_train" "${toy[@]}" run.mode=explain "mesh=rows:2;idle:4" layout=batch:rows run.memory_limit=1GB
expect_text "more/*/even/kernel"
expect_text 'warning: mesh dimension `idle` (4) splits no tensor'
expect_text "layout.batch=[rows, idle]"
expect_text "75 % of it is repeated work"
tail -1 out | grep -q "limit .* run.memory_limit" || fail "the explanation does not end with the verdict"
expect_exit 0 "$mtf_train" "${toy[@]}" run.mode=explain run.memory_limit=1MB
expect_text "does not fit"
expect_exit 2 "$mtf_train" "${toy[@]}" run.mode=explain "mesh=all:3" layout=hidden_odd:all
expect_exit 2 "$mtf_train" "${toy[@]}" run.mode=explain explain.format=xml

# A network of 1.07 billion parameters on 512 positions takes less than 2 s and 200 MB.
cat > billion.yaml << 'END'
data: {train: {type: identity, size: 256, examples: 100000, dimension: io}}
model:
  type: regression
  input: x
  target: y
  layers:
    - dense: {name: first, output: {hidden: 4096}, activation: relu}
    - repeat:
        times: 32
        layers:
          - dense: {name: up, output: {d_ff: 4096}, activation: relu}
          - dense: {name: down, output: {hidden: 4096}, activation: relu}
    - dense: {name: last, output: {io: 256}}
optimizer: adafactor
train: {steps: 10, batch_size: 4096}
mesh: "rows:64;cols:8"
layout: "batch:rows;hidden:cols"
END
for arguments in "" "layout={batch: rows}" "parameter_layout={d_ff: rows}"; do
  for format in text json; do
    python3 - "$mtf_train" billion.yaml run.mode=explain "explain.format=$format" ${arguments:+"$arguments"} << 'END' ||
import json, resource, subprocess, sys
answer = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, check=True).stdout.decode()
used = resource.getrusage(resource.RUSAGE_CHILDREN)
seconds = used.ru_utime + used.ru_stime  # whatever else the machine does
megabytes = used.ru_maxrss * 1024 / 1e6
print(f"{sys.argv[4:]}: {seconds:.2f} s, {megabytes:.0f} MB")
assert seconds < 2 and megabytes < 200
if sys.argv[4].endswith("json"):
    document = json.loads(answer)
    assert document["mesh"]["positions"] == 512
    assert sum(layer["parameters"] for layer in document["layers"]) > 1e9
else:
    assert "512 positions" in answer
END
      fail "the network of a billion parameters takes too much time or memory"
  done
done

# A Transformer of 175 billion parameters on 64 positions, in one process or with a process per position,
# takes seconds with any layout. A quadratic pass over the instructions took 20 s here, and so did the list of
# all messages.
cp "$source_dir/tests/end_to_end/gpt3.yaml" .
processes=(cluster.processes=64 cluster.process=0 cluster.address=127.0.0.1:1)
fsdp=(mesh=all:64 layout=batch:all parameter_layout=d_model:all)
while read -r name arguments; do
  read -ra arguments <<< "$arguments"
  python3 - "$name" "$mtf_train" gpt3.yaml run.mode=explain "${arguments[@]}" << 'END' || fail "$name takes too long"
import resource, subprocess, sys
answer = subprocess.run(sys.argv[2:], stdout=subprocess.PIPE, check=True).stdout.decode()
used = resource.getrusage(resource.RUSAGE_CHILDREN)
seconds = used.ru_utime + used.ru_stime
print(f"{sys.argv[1]}: {seconds:.2f} s")
assert "64 positions" in answer and " 174," in answer
assert seconds < 4
END
done << END
data_and_model mesh=rows:8;cols:8 layout=batch:rows;vocab:cols;d_ff:cols;heads:cols
fsdp ${fsdp[*]}
fsdp_64_processes ${fsdp[*]} ${processes[*]}
fsdp_64_processes_recompute ${fsdp[*]} ${processes[*]} train.recompute=block
END

# The time depends on the program, not on the number of positions, nor on the pairs of processes: 16,384 take less than
# three times as long as 8, in one process, in some, or with a process for each.
python3 - "$mtf_train" << 'END' || fail "many positions take too long"
import resource, subprocess, sys
layout = ["layout=batch:data;vocab:model;d_ff:model;heads:model", "parameter_layout=d_model:data"]
def seconds(positions, processes):
    cluster = [f"cluster.processes={processes}", "cluster.process=0", "cluster.address=127.0.0.1:1"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    answer = subprocess.run(
        [sys.argv[1], "gpt3.yaml", "run.mode=explain", f"mesh=data:{positions // 4};model:4", "model.num_layers=16",
         "train.batch_size=4096", *layout, *(cluster if processes > 1 else [])], stdout=subprocess.PIPE, check=True).stdout
    assert f"{positions:,} positions".encode() in answer, answer[:400]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_maxrss * 1024 < 500e6
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
few = min(seconds(8, 8) for _ in range(2))
for processes in 1, 64, 16384:
    many = min(seconds(16384, processes) for _ in range(2))
    print(f"16,384 positions in {processes} processes: {many / few:.2f} times as long as 8")
    assert many < 3 * few
END
