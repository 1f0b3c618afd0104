#!/usr/bin/env bash
# Tests texts as training data: every format gives the same run; tokens are made once and by one process, also
# after kill -9 and with a cache that cannot be written; several corpora are mixed by weight and resumed
# exactly; and the messages about the data.
source "$2/tests/end_to_end/common.sh"

cat > run.yaml <<'YAML'
data:
  train: {type: parallel, inputs: train.en, targets: train.de, as: targets}
  sequence_length: 64
  vocabulary: bytes
  cache: cache
model: {type: lm, d_model: 8, num_layers: 1, block: [SelfAttention, DenseReluDense]}
learning_rate: 0.1
train: {steps: 12, batch_size: 4, log_every: 1}
YAML
for ((i = 0; i < 60; i++)); do echo "line $i of a house"; done > train.en
for ((i = 0; i < 60; i++)); do echo "Zeile $i, größer"; done > train.de
paste train.en train.de > train.tsv
sed 's/\(.*\)\t\(.*\)/{"de": "\2", "en": "\1"}/' train.tsv > train.jsonl
sed 's/\(.*\)\t\(.*\)/\1 \2/' train.tsv > train.txt
gzip -k train.en train.de train.tsv train.jsonl
sed 's/$/\r/; 1s/^/\xef\xbb\xbf/' train.tsv > windows.tsv
train() {  # NAME ARGUMENT...: a run in its own directory
  local name=$1
  shift
  expect_exit 0 "$mtf_train" run.yaml run.model_dir="$name" "$@"
}
from() {  # NAME SOURCE ARGUMENT...: the run with another source
  local name=$1 source=$2
  shift 2
  sed "s|^  train: .*|  train: $source|" run.yaml > "$name.yaml"
  expect_exit 0 "$mtf_train" "$name.yaml" run.model_dir="$name" "$@"
}
stores() { find cache -name "$1-*.safetensors" | wc -l; }

# Every format gives the same run.
train parallel
expect_text "60 examples in "
from gz '{type: parallel, inputs: train.en.gz, targets: train.de.gz, as: targets}'
from tsv '{type: tsv, path: train.tsv, as: targets}'
from tsv_gz '{type: tsv, path: train.tsv.gz, as: targets}'
from windows '{type: tsv, path: windows.tsv, as: targets}'
from jsonl '{type: jsonl, path: train.jsonl, columns: {inputs: en, targets: de}, as: targets}'
from jsonl_gz '{type: jsonl, path: train.jsonl.gz, columns: {inputs: en, targets: de}, as: targets}'
for name in gz tsv tsv_gz windows jsonl jsonl_gz; do
  cmp <(losses parallel) <(losses $name) || fail "$name: another run than that on parallel files"
done

# Tokens are made once for the content of the files, whatever their names and times are.
before=$(stores tokens)
touch train.en
cp train.de copy.de
train touched data.train.targets=copy.de
[ "$(stores tokens)" -eq "$before" ] || fail "the same content was tokenised again"
sed -i 's/^line 7 /Line 7 /' train.en
train changed
[ "$(stores tokens)" -eq $((before + 1)) ] || fail "a changed byte gives no new tokens"

# A run whose vocabulary is missing trains it, and uses it from then on.
from vocabulary '{type: text, path: train.txt}' 'data.vocabulary={type: sentencepiece, size: 290}'
expect_text "training a vocabulary of 290 pieces on 60 texts"
[ -s vocabulary/vocabulary.model ] || fail "the vocabulary is not in the run's directory"
expect_exit 0 "$mtf_train" vocabulary/config.yaml train.steps=14
! grep -q "training a vocabulary" out || fail "the vocabulary is trained again"

# Several corpora are mixed by weight: an interrupted and resumed run is the same to the last bit.
mixture='{first: {type: text, path: train.txt, weight: 3}, second: {type: tsv, path: train.tsv, as: targets}}'
from mixed "$mixture"
expect_text "first: 60 examples in "
expect_text "second: 60 examples in "
from resumed "$mixture" train.steps=5
expect_exit 0 "$mtf_train" resumed/config.yaml train.steps=12
cmp <(losses mixed) <(losses resumed) || fail "a mixture is not resumed where it ended"

# One of several processes makes the tokens; if it is killed, the files that it leaves do not disturb the next
# one.
for ((i = 0; i < 2000; i++)); do echo "$(< train.txt)"; done > large.txt
sed 's|^  train: .*|  train: {type: text, path: large.txt}|; s|cache: cache|cache: shared|' run.yaml > large.yaml
"$mtf_train" large.yaml run.model_dir=killed > killed.out 2>&1 &
victim=$!
for ((i = 0; i < 500 && $(find shared -name '*.lock' 2> /dev/null | wc -l) == 0; i++)); do sleep 0.01; done
kill -9 "$victim" || fail "the run was over before it could be killed"
wait "$victim" 2> /dev/null || true
[ "$(find shared -name 'tokens-*.safetensors' | wc -l)" -eq 0 ] || fail "a killed process left tokens"
pids=()
for i in 1 2 3; do
  "$mtf_train" large.yaml run.model_dir=together$i > together$i.out 2>&1 &
  pids+=($!)
done
for pid in "${pids[@]}"; do wait "$pid" || { cat together*.out; fail "one of three runs at once"; }; done
[ "$(grep -l "waiting for another process" together*.out | wc -l)" -ge 2 ] || fail "more than one of three made the tokens"
[ "$(find shared -type f -not -path '*/files/*' | wc -l)" -eq 2 ] || fail "more than one store: $(find shared -type f)"
cmp <(losses together1) <(losses together3) || fail "runs at once differ"

# An existing cache need not be writable. (For root, who may write everywhere, this tests nothing.)
chmod -R a-w shared
expect_exit 0 "$mtf_train" large.yaml run.model_dir=read_only
chmod -R u+w shared

# On a full disk (simulated by a limit of 48 KB on files) writing the temporary file of tokens or the store
# fails, and no file is left.
for lines in 4000 20000; do
  printf 'a%.0s\n' $(seq $lines) > full.txt
  sed 's|^  train: .*|  train: {type: text, path: full.txt}|; s|cache: cache|cache: full|' run.yaml > full.yaml
  expect_exit 1 bash -c 'trap "" XFSZ; ulimit -f 48; exec "$@"' - "$mtf_train" full.yaml run.model_dir=full_run
  expect_text "File too large; a directory with enough room, as \`data.cache\`"
  [ -z "$(find full -type f -not -path '*/files/*')" ] || fail "a full disk leaves $(find full -type f)"
done

# Errors of the model are reported before the texts are read.
expect_exit 2 "$mtf_train" run.yaml run.model_dir=wrong model.block=[Nonsense] data.cache=untouched
expect_text "Nonsense"
[ ! -e untouched ] || fail "texts were tokenised for a model that is wrong"

# Stores that no run has used for 30 days are removed when another is made, and only these; using a store
# keeps it.
sed 's|cache: cache|cache: aging|' run.yaml > aging.yaml
sleep 2.1  # hashes of files that are younger than two seconds are not kept
expect_exit 0 "$mtf_train" aging.yaml run.model_dir=aging_first
touch -d "40 days ago" aging/tokens-* aging/rows-* aging/files/*
echo mine > aging/mine.safetensors
touch -d "40 days ago" aging/mine.safetensors
before=$(ls aging/tokens-* aging/rows-*)
expect_exit 0 "$mtf_train" aging.yaml run.model_dir=aging_same
[ -z "$(find aging -maxdepth 1 \( -name 'tokens-*' -o -name 'rows-*' \) -mtime +1)" ] || fail "stores that were used are old"
touch -d "40 days ago" aging/tokens-* aging/rows-*
expect_exit 0 "$mtf_train" aging.yaml run.model_dir=aging_other data.lowercase=true
expect_text "removed "
expect_text "aging, which no run has used for 30 days"
for store in $before; do [ ! -e "$store" ] || fail "$store is still there"; done
[ -e aging/mine.safetensors ] || fail "a file that is no store was removed"
expect_exit 0 "$mtf_train" aging.yaml run.model_dir=aging_again
cmp <(losses aging_first) <(losses aging_again) || fail "stores that were made again hold something else"

# A store with a wrong bit is made again, too.
for store in aging/tokens-* aging/rows-*; do
  printf '\377' | dd of="$store" bs=1 seek=$(($(stat -c %s "$store") - 4)) conv=notrunc status=none
done
expect_exit 0 "$mtf_train" aging.yaml run.model_dir=aging_damaged
expect_text "safetensors is damaged and is built anew"
cmp <(losses aging_first) <(losses aging_damaged) || fail "stores with a wrong bit are used"
