#!/usr/bin/env bash
# Tests run.mode=bench: the costs of operations and of layers add up to the profiled step, in one process, on several positions,
# in two processes and on a GPU; contractions have the FLOPs that explain counts; nothing is written.
source "$2/tests/end_to_end/common.sh"
read -ra data <<< "$(mnist_data)"
mnist=("$source_dir/configs/models/mnist.yaml" "${data[@]}" vars.hidden=64 train.batch_size=40)
bench=("$mtf_train" "${mnist[@]}" run.mode=bench bench.steps=5)
mtf_launch=$(dirname "$mtf_train")/mtf-launch

# check_document FILE EXPLANATION: operations, and layers, have all the time that is not idle, and the FLOPs of explain.
check_document() {
  python3 - "$1" "$2" << 'END' || fail "$1: $(cat "$1")"
import json, sys
document, explained = (json.load(open(file)) for file in sys.argv[1:])
step = document["profiled"]["seconds"] * document["threads"]
for key in "operations", "layers":
    parts = document[key]
    seconds = sum(part["seconds"] for part in parts)
    idle = (document["profiled"]["idle"] + document["profiled"]["data"]) * document["threads"]
    assert abs(seconds + idle - step) < 0.01 * step or idle == 0, (key, seconds, idle, step)
    assert all(part["predicted"] is None for part in parts)
flops = sum(part["flops"] for part in document["operations"])
assert abs(flops / explained["step"]["unique_flops"] - 1) < 1e-6, (flops, explained["step"])
assert document["seconds"] > 0 and document["examples"] == 40
END
}

expect_exit 0 "${bench[@]}" run.threads=1
expect_text "a step takes "
expect_text " GFLOP/s of contractions and attention"
expect_text "  einsum "
expect_text "  layer "
[ -z "$(find . -name runs)" ] || fail "something was written: $(find runs)"

for layout in "" "mesh=all:4 layout=batch:all" "mesh=all:4 layout=hidden:all train.microbatches=2"; do
  read -ra split <<< "$layout"
  "${bench[@]}" "${split[@]}" bench.format=json run.threads=2 > bench.json
  "$mtf_train" "${mnist[@]}" "${split[@]}" run.mode=explain explain.format=json > explain.json
  check_document bench.json explain.json
done

# Two processes: the first one prints, and waiting is among its costs.
"$mtf_launch" -n 2 -- "${bench[@]}" mesh=all:2 layout=batch:all > two.txt
[ "$(grep -c "a step takes" two.txt)" -eq 1 ] || fail "one process prints: $(cat two.txt)"
grep -q "waits for other processes" two.txt || fail "waiting is missing: $(cat two.txt)"

# With a profile of hardware there is a column of predictions.
expect_exit 0 "$mtf_train" run.mode=calibrate calibrate.rounds=1 calibrate.output=here.yaml run.threads=1
expect_exit 0 "${bench[@]}" hardware=here.yaml
expect_text "GB/s  predicted"

expect_exit 2 "${bench[@]}" train.strategy=parameter_server
expect_text "run.mode=bench measures steps without parameter servers"
expect_exit 2 "${bench[@]}" bench.steps=0
expect_text '`bench.steps` must be'

if [ -e "$(dirname "$mtf_train")/../lib/libmtf_cuda_emulator.so" ]; then
  use_emulated_gpu
  expect_exit 0 "${bench[@]}" devices=cuda bench.steps=2
  expect_text "  layer "
fi
echo "ok"
