#!/usr/bin/env bash
# Tests that metrics.jsonl has only complete lines whatever happens to the process or the disk.
source "$2/tests/end_to_end/common.sh"
use_python
run=("$mtf_train" "$source_dir/configs/models/toy.yaml" train.log_every=1 train.steps=100000000)

# expect_whole_lines FILE: each line must be a JSON object with a newline. Prints their number.
expect_whole_lines() {
  "$python" - "$1" << 'END' || fail "$1 is damaged"
import json, sys
lines = open(sys.argv[1]).read().split("\n")
assert lines.pop() == "", f"torn: {lines[-1]}"
steps = [json.loads(line)["step"] for line in lines]
assert steps == list(range(1, len(steps) + 1)), steps
print(len(lines))
END
}

# The run is killed at ten random moments after the first line.
RANDOM=1
for i in 1 2 3 4 5 6 7 8 9 10; do
  "${run[@]}" run.model_dir=killed$i > out 2>&1 &
  process=$!
  until [ -s killed$i/metrics.jsonl ]; do
    kill -0 $process 2> /dev/null || { cat out >&2; fail "the run ended by itself"; }
    sleep 0.01
  done
  sleep 0.$((RANDOM % 900 + 100))
  kill -9 $process
  wait $process 2> /dev/null || true
  [ "$(expect_whole_lines killed$i/metrics.jsonl)" -gt 1 ] || fail "no steps"
done

# A full disk and a limit on file sizes give one line of error, and no incomplete line.
expect_exit 1 env MTF_FAULT=metrics.line@3=ENOSPC "${run[@]}" run.model_dir=full
expect_text "full/metrics.jsonl: cannot be written: No space left on device"
[ "$(expect_whole_lines full/metrics.jsonl)" = 2 ] || fail "not two lines"
# So does a lack of memory in the middle of training, which the log keeps, too.
expect_exit 1 env MTF_FAULT=metrics.line@3=bad_alloc "${run[@]}" run.model_dir=exhausted
expect_text "mtf-train: there is not enough memory"
grep -q "mtf-train: there is not enough memory" exhausted/log.txt || fail "log.txt does not say why the run ended"
expect_exit 1 bash -c 'ulimit -f 32; exec "$@"' bash "${run[@]}" run.model_dir=limited
expect_text "cannot be written: File too large"
[ "$(grep -c "cannot be written" out)" = 1 ] || fail "said more than once"
expect_whole_lines limited/metrics.jsonl > lines
[ "$(cat lines)" -gt 10 ] || fail "$(cat lines) lines in 32 KiB"

# If the messages cannot be written the run continues, and they do not get into its files.
for streams in '2> /dev/full' '>&- 2>&-' '<&- >&- 2>&-'; do
  rm -rf unread
  eval '"${run[@]}" train.steps=20 run.model_dir=unread '"$streams" || fail "ended with exit code $? with $streams"
  [ "$(expect_whole_lines unread/metrics.jsonl)" = 20 ] || fail "not 20 lines"
  grep -q "finished after" unread/log.txt || fail "log.txt does not have what was said"
done
