#!/usr/bin/env bash
# Tests that results do not depend on how a run is arranged: small models of every kind, with random options, train under
# random meshes, layouts, processes, microbatches and threads, and stop and go on under others (random_arrangements.py).
# The budget scales the number of models, SEED draws others, CASE names single ones of a seed, KINDS is a pattern of the
# kinds' names. With MTF_TEST_DEVICES=emulator, or cuda, most arrangements are on a GPU.
#   SEED=7 MTF_TEST_BUDGET=1000 bash tests/end_to_end/random_arrangements_test.sh build/bin/mtf-train .
#   SEED=7 CASE="12 31" bash tests/end_to_end/random_arrangements_test.sh build/bin/mtf-train .
#   KINDS=experts MTF_TEST_DEVICES=emulator bash tests/end_to_end/random_arrangements_test.sh build/bin/mtf-train .
source "$2/tests/end_to_end/common.sh"
source "$source_dir/tests/end_to_end/processes.sh"
use_python
[ "${MTF_TEST_DEVICES:-}" != emulator ] || use_emulated_gpu
models=$((17 * ${MTF_TEST_BUDGET:-100} / 100))
"$python" "$source_dir/tests/end_to_end/random_arrangements.py" "$mtf_train" $((models > 0 ? models : 1)) "${SEED:-1}" ${CASE:-}
