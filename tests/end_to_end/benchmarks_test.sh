#!/usr/bin/env bash
# Tests that the comparisons of tests/bench/bench.py still work, at small sizes and without the programs that they compare with.
source "$2/tests/end_to_end/common.sh"
export PYTHONDONTWRITEBYTECODE=1
bench=("$source_dir/tests/bench/bench.py" --mtf-train "$mtf_train")

expect_exit 0 python3 "${bench[0]}" quick "${bench[@]:1}" --peers none
for text in "| lm | 1 | mtf-train |" "| 1,024 |" "| mtf-train, float32 | 1 |" "| two processes, a thread each |" "CPU seconds" \
  "Kendall's tau" "| AlexNet | data | 8 |"; do
  expect_text "$text"
done
expect_exit 2 python3 "${bench[0]}" training "${bench[@]:1}" --peers none,other
expect_text "--peers: none is not one of torch, jax"
echo "benchmarks_test: passed"
