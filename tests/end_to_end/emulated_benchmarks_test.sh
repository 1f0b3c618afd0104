#!/usr/bin/env bash
# Tests the benchmarks for GPUs (tests/bench/gpu) at tiny sizes on the emulated one: they run to their ends and write JSON.
# The comparisons with PyTorch run where a Python has it (that of the peers of tests/bench/bench.py, or python3): equal losses,
# and an error where they are not equal.
source "$2/tests/end_to_end/common.sh"
use_emulated_gpu
bench=$source_dir/tests/bench/gpu
operations=$(dirname "$mtf_train")/gpu_operations_bench
export PYTHONDONTWRITEBYTECODE=1

# expect_json FILE EXPRESSION: EXPRESSION about `results`, the content of FILE, is true.
expect_json() {
  python3 -c 'import json, sys
results = json.load(open(sys.argv[1]))
sys.exit(not eval(sys.argv[2]))' "$1" "$2" || { cat "$1"; fail "$1: not $2"; }
}

for name in gpt2 translation; do
  expect_exit 0 python3 "$bench/${name}_vs_torch.py" "$mtf_train" --emulator --tiny --steps 3 --untimed 2 --sides mtf-train --json $name.json
  expect_json $name.json 'results["same"] and results["sides"]["mtf-train"]["tokens_per_second"] > 0 and results["machine"]["emulator"]'
  expect_json $name.json '[len(run["losses"]) for run in results["sides"]["mtf-train"]["rounds"]] == [2]'
done
expect_exit 0 python3 "$bench/decoding.py" "$mtf_train" --emulator --tiny --json decoding.json
expect_json decoding.json 'len(results["results"]) == 4 and all(case["tokens_per_second"] > 0 for case in results["results"])'
expect_exit 0 python3 "$bench/attention_vs_cudnn.py" "$operations" --emulator --tiny --no-torch --json attention.json
expect_json attention.json '[r["d_kv"] for r in results["results"]] == [64, 128] and results["results"][0]["mtf-train"]["both"] > 0'
expect_exit 0 python3 "$bench/optimizer_updates.py" "$operations" --emulator --tiny --json updates.json
expect_json updates.json '{"negative", "adam", "adafactor"} <= set(results["results"][0]["gigabytes_per_second"])'

# The vocabulary of GPT-2's size is one that mtf-train takes.
python3 -c "import sys; sys.path.insert(0, '$bench'); import corpus; corpus.write_vocabulary('words', 50304)"
[ "$(wc -l < words)" = 50304 ] || fail "the vocabulary has $(wc -l < words) subwords"
echo w00000 > text
cat > words.yaml << YAML
data: {train: {type: text, path: text}, vocabulary: {type: t2t, path: words}, sequence_length: 4, cache: cache}
model: {type: lm, num_layers: 1, d_model: 8, block: [DenseReluDense]}
train: {steps: 1, batch_size: 1}
YAML
expect_exit 0 "$mtf_train" words.yaml

python=${MTF_BENCH_VENVS:-$HOME/.cache/mtf-train}/peers/bin/python
[ -x "$python" ] || python=python3
if ! "$python" -c 'import torch' 2> /dev/null; then
  echo "emulated_benchmarks_test: passed without the comparisons: $python has no torch"
  exit 0
fi
for name in gpt2 translation; do
  run=("$python" "$bench/${name}_vs_torch.py" "$mtf_train" --emulator --tiny --sides "mtf-train,eager")
  expect_exit 0 "${run[@]}" --precision float32 --json $name-float32.json
  expect_json $name-float32.json 'results["same"] and results["differences"]["eager"]["loss"] < 1e-5'
  expect_exit 0 "${run[@]}"
done
expect_exit 1 "${run[@]}" --loss-tolerance 1e-12
expect_text "the sides compute different things"
expect_exit 0 "$python" "$bench/attention_vs_cudnn.py" "$operations" --emulator --tiny
echo "emulated_benchmarks_test: passed"
