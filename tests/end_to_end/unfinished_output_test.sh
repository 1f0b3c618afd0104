#!/usr/bin/env bash
# Tests that a run which writes texts or scores and is ended by a signal leaves no file; that the next start
# removes the file of a killed run, but not that of a process that is still writing.
source "$2/tests/end_to_end/common.sh"

for ((i = 0; i < 400; i++)); do echo "the cat of number $i sees the dog"; done > lines
cat > lm.yaml << 'END'
data: {train: {type: text, path: lines}, vocabulary: bytes, sequence_length: 64, cache: cache}
model:
  type: lm
  d_model: 16
  num_layers: 1
  max_length: 64
  layer_defaults: {SelfAttention: {num_heads: 2, key_value_size: 8}, DenseReluDense: {hidden_size: 32}}
  block: [SelfAttention, DenseReluDense]
train: {steps: 10, batch_size: 8, log_every: 5}
END
expect_exit 0 "$mtf_train" lm.yaml run.model_dir=lm
mkfifo source

# start MODE: starts a run that writes result.txt and waits for more lines; sets $process and $feeder.
start() {
  local input=infer.input
  [ "$1" = infer ] || input=score.targets
  # Bash makes background processes ignore SIGINT; env restores the default.
  env --default-signal=INT "$mtf_train" lm/config.yaml "run.mode=$1" "$input=source" "$1.output=result.txt" > out 2>&1 &
  process=$!
  exec 3> source
  head -n 3 lines >&3
  for ((i = 0; i < 500; i++)); do [ -s "result.txt.$process.part" ] && return || sleep 0.02; done
  cat out >&2
  fail "$1 writes nothing"
}
# finish CODE: closes the input and waits for the process, which must end with CODE.
finish() {
  local code=0
  exec 3>&-
  { wait $process || code=$?; } 2> /dev/null
  [ $code -eq "$1" ] || { cat out >&2; fail "exit code $code, not $1"; }
}
# expect_files "NAME ..." WHAT: these must be all result files, in any order (a process id may sort anywhere).
expect_files() {
  local expected=$(tr ' ' '\n' <<< "$1" | sed '/^$/d' | sort)
  [ "$(ls | grep '^result' | sort)" = "$expected" ] || fail "$2: $(ls | grep '^result')"
}

for mode in infer score; do
  for signal in TERM:143 INT:130 HUP:129; do
    echo before > result.txt
    start $mode
    kill -"${signal%:*}" $process
    finish "${signal#*:}"
    expect_files "result.txt " "$mode, SIG${signal%:*}"
    [ "$(cat result.txt)" = before ] || fail "$mode: an unfinished run has changed the file"
  done
  rm result.txt
  # A signal that is ignored stays ignored.
  (trap '' HUP; start $mode; kill -HUP $process; finish 0) || fail "$mode: ended by a signal that is ignored"
  expect_files "result.txt " "$mode, finished"
  [ "$(wc -l < result.txt)" -eq 3 ] || fail "$mode: result.txt is not whole"
  rm result.txt
done

# The file of a killed run stays until the next run writes there; files with other names are not touched.
start infer
kill -KILL $process
finish 137
expect_files "result.txt.$process.part " "killed"
touch result.txt.part result.txt.x1.part result.txt.12.part.txt
start infer
first=$process
expect_files "result.txt.12.part.txt result.txt.$process.part result.txt.part result.txt.x1.part " "started again"
# Of two concurrent runs the second does not remove the file of the first.
head -n 5 lines > five
expect_exit 0 "$mtf_train" lm/config.yaml run.mode=infer infer.input=five infer.output=result.txt
[ "$(wc -l < result.txt)" -eq 5 ] || fail "the second of two runs has not written its lines"
[ -e "result.txt.$first.part" ] || fail "the second of two runs has removed what the first writes"
finish 0
[ "$(wc -l < result.txt)" -eq 3 ] || fail "the first of two runs has not written its lines"
[ ! -e "result.txt.$first.part" ] || fail "a part is left"
expect_exit 1 "$mtf_train" lm/config.yaml run.mode=infer infer.input=five infer.output=none/result.txt
expect_text "cannot write none/result.txt: No such file or directory"
