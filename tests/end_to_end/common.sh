# Sourced by the end-to-end tests: $1 is the mtf-train program, $2 the source directory. Each test runs in its
# own temporary directory, which is removed when the test ends.
set -euo pipefail
mtf_train=$(realpath "$1")
mtf_compare=$(dirname "$mtf_train")/mtf-compare
source_dir=$(realpath "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
  echo "FAIL: $*" >&2
  exit 1
}

# expect_exit CODE COMMAND...: runs the command, which must end with CODE; its output is written to $work/out.
expect_exit() {
  local expected=$1 code=0
  shift
  "$@" > out 2>&1 || code=$?
  [ "$code" -eq "$expected" ] || { cat out >&2; fail "exit code $code, not $expected: $*"; }
}

# expect_text TEXT: the output of the last expect_exit must contain TEXT.
expect_text() {
  grep -qF -- "$1" out || { cat out >&2; fail "this is missing in the output: $1"; }
}

# use_emulated_gpu: makes `devices: cuda` an emulated GPU. Skips the test if the emulator is not built.
use_emulated_gpu() {
  export MTF_CUDA_PLUGIN
  MTF_CUDA_PLUGIN=$(dirname "$mtf_train")/../lib/libmtf_cuda_emulator.so
  [ -e "$MTF_CUDA_PLUGIN" ] || { echo "skipped: built with MTF_EMULATED_GPU=OFF"; exit 77; }
}

# use_gpu: skips the test if the machine has no NVIDIA driver or no GPU. Any other reason for which mtf-train finds none is
# a failure; with MTF_REQUIRE_GPU=1 these two are failures, too.
use_gpu() {
  local reason
  "$mtf_train" --list-devices > devices
  ! grep -q '^cuda:0' devices || return 0
  reason=$(grep '^no GPU' devices)
  [ "${MTF_REQUIRE_GPU:-0}" != 1 ] || fail "$reason"
  case $reason in
    *"there is no NVIDIA driver"* | *"there is no GPU"*) echo "skipped: $reason"; exit 77 ;;
    *) fail "$reason" ;;
  esac
}

# check COMMAND...: runs the command in a subshell. If it fails the test goes on, and report_failures ends it.
failures=()
check() {
  local code
  set +e
  (set -e; "$@")
  code=$?
  set -e
  [ $code -eq 0 ] || failures+=("${*:1:4}")
}
report_failures() {
  [ ${#failures[@]} -eq 0 ] || fail "$(printf '%s failed: ' ${#failures[@]}; printf '%s; ' "${failures[@]}")"
}

# big_endian NUMBER: prints a number as four bytes, as in IDX headers.
big_endian() {
  printf "\\$(printf %03o $(($1 >> 24 & 255)))\\$(printf %03o $(($1 >> 16 & 255)))\\$(printf %03o $(($1 >> 8 & 255)))\\$(printf %03o $(($1 & 255)))"
}

# make_small_idx: writes the files images and labels: 96 images of 10 x 10 in 6 classes.
make_small_idx() {
  local i
  printf 'the pixels of some images, %d' {1..400} > pixels
  { big_endian 2051; big_endian 96; big_endian 10; big_endian 10; head -c 9600 pixels; } > images
  { big_endian 2049; big_endian 96; for i in {1..16}; do printf '\0\1\2\3\4\5'; done; } > labels
}

# safetensors HEADER BYTES: prints a file with this header and BYTES zero bytes of data.
safetensors() {
  printf "\\x$(printf %02x $((${#1} & 255)))\\x$(printf %02x $((${#1} >> 8)))\\0\\0\\0\\0\\0\\0%s" "${1//%/%%}"
  head -c "$2" /dev/zero
}

# little_endian NUMBER...: prints 32-bit integers.
little_endian() { for number; do printf "\\x$(printf %02x $((number & 255)))\\x$(printf %02x $((number >> 8)))\0\0"; done; }

# make_idx PREFIX EXAMPLES: writes images of 28 x 28 of two kinds, black with some grey or the reverse, and
# their labels.
make_idx() {
  local i labels=""
  { big_endian 2051; big_endian "$2"; big_endian 28; big_endian 28; } > "$1-images"
  { big_endian 2049; big_endian "$2"; } > "$1-labels"
  for ((i = 0; i < $2; i++)); do
    if ((i % 3 == 0)); then
      { head -c 300 /dev/zero; head -c 484 /dev/zero | tr '\0' '\310'; } >> "$1-images"
      labels+='\001'
    else
      { head -c 300 /dev/zero | tr '\0' '\310'; head -c 484 /dev/zero; } >> "$1-images"
      labels+='\000'
    fi
  done
  printf "$labels" >> "$1-labels"
}

# small_language_model TEXT SIZE: prints the sections `data` and `model` of a language model with dropout on a
# text file, with a vocabulary of SIZE pieces.
small_language_model() {
  cat << YAML
data:
  train: {type: text, path: $1}
  vocabulary: {type: sentencepiece, size: $2}
  sequence_length: 32
  packing: dense
  cache: cache
model:
  type: lm
  d_model: 32
  num_layers: 2
  max_length: 32
  layer_defaults:
    SelfAttention: {num_heads: 2, key_value_size: 16, dropout: 0.1}
    DenseReluDense: {hidden_size: 64, dropout: 0.1}
  block: [SelfAttention, DenseReluDense]
YAML
}

# made_up_pairs SEED LINES NAME: writes sentences of made-up words to NAME.en, and the same words in capitals,
# each with an ending, to NAME.de.
made_up_pairs() {
  awk -v seed="$1" -v lines="$2" -v name="$3" 'BEGIN {
    srand(seed); n = split("bato kilu mena pori suda tefo ragi nolu", words, " ")
    for (i = 0; i < lines; i++) {
      source = target = ""
      for (count = 3 + int(rand() * 5); count > 0; count--) {
        word = words[1 + int(rand() * n)]
        source = source word (count > 1 ? " " : ".")
        target = target toupper(substr(word, 1, 1)) substr(word, 2) "en" (count > 1 ? " " : ".")
      }
      print source > (name ".en"); print target > (name ".de")
    }
  }'
}

# Writes 600 sentences to train.in and 40 to test.in, and the same with their words backwards to train.out and test.out.
backward_sentences() {
  local side
  awk 'BEGIN {
    srand(5)
    n = split("the a red small quiet old cat dog bird man river house sees finds likes paints stone window boat song", words, " ")
    for (i = 0; i < 640; i++) {
      line = ""
      for (left = 2 + int(rand() * 4); left > 0; left--) line = line (line ? " " : "") words[1 + int(rand() * n)]
      print line
    }
  }' > all.in
  awk '{ line = ""; for (i = NF; i > 0; i--) line = line (line ? " " : "") $i; print line }' all.in > all.out
  for side in in out; do
    head -n 600 all.$side > train.$side
    tail -n 40 all.$side > test.$side
  done
}

# backward_translator D_MODEL HEAD HIDDEN: prints the sections `data` and `model` of a translator of backward_sentences, to
# which keys of `model` may be added.
backward_translator() {
  cat << YAML
data:
  train: {type: parallel, inputs: train.in, targets: train.out}
  vocabulary: {type: sentencepiece, size: 300}
  sequence_length: 48
  cache: cache
model:
  type: bitransformer
  d_model: $1
  max_length: 48
  layer_defaults:
    SelfAttention: {num_heads: 4, key_value_size: $2}
    EncDecAttention: {num_heads: 4, key_value_size: $2}
    DenseReluDense: {hidden_size: $3}
  encoder: {num_layers: 1, block: [SelfAttention, DenseReluDense]}
  decoder: {num_layers: 1, block: [SelfAttention, EncDecAttention, DenseReluDense]}
YAML
}

# mnist_data: prints arguments that replace Fashion-MNIST by synthetic data.
mnist_data() {
  [ -e train-images ] || { make_idx train 400; make_idx test 150; }
  echo "data.train.images=$work/train-images data.train.labels=$work/train-labels" \
    "evaluate.datasets.test.images=$work/test-images evaluate.datasets.test.labels=$work/test-labels"
}

# losses DIRECTORY: prints the losses of metrics.jsonl, one per line.
losses() {
  sed 's/.*"loss":\([^,]*\),.*/\1/' "$1/metrics.jsonl"
}

# expect_close FILE FILE TOLERANCE: the two columns of numbers must be equal up to a relative tolerance.
expect_close() {
  paste "$1" "$2" | awk -v tolerance="$3" '
    NF != 2 { print "different numbers of lines"; bad = 1 }
    { d = $1 - $2; if (d < 0) d = -d; if (d > tolerance * ($2 < 0 ? -$2 : $2)) { print "line " NR ": " $0; bad = 1 } }
    END { if (NR == 0) { print "no lines"; bad = 1 } exit bad }' || fail "$1 and $2 differ"
}

# expect_losses_of_one CONFIG TOLERANCE STEPS: training with CONFIG on each layout of the associative array `layouts` has the losses
# in one.losses, up to a relative tolerance; over two processes it has those of the layout `square` to the bit, and with a restart
# after STEPS steps, in the directory `resumed`, those in one.losses. A copy of `resumed` as it was before the restart is `moved`.
expect_losses_of_one() {
  local name words
  for name in "${!layouts[@]}"; do
    read -ra words <<< "${layouts[$name]}"
    expect_exit 0 "$mtf_train" "$1" run.model_dir="$name" "${words[@]}"
    losses "$name" > "$name.losses"
    expect_close "$name.losses" one.losses "$2"
  done
  read -ra words <<< "${layouts[square]}"
  expect_exit 0 "$(dirname "$mtf_train")/mtf-launch" -n 2 "$mtf_train" "$1" run.model_dir=processes "${words[@]}"
  losses processes > processes.losses
  cmp -s processes.losses square.losses || fail "other losses over two processes"
  expect_exit 0 "$mtf_train" "$1" run.model_dir=resumed train.steps="$3"
  cp -r resumed moved
  expect_exit 0 "$mtf_train" "$1" run.model_dir=resumed
  losses resumed > resumed.losses
  cmp -s resumed.losses one.losses || fail "other losses after a restart"
}

# expect_close_means FILE FILE TOLERANCE: the means of two columns of numbers must be equal up to a relative tolerance.
expect_close_means() {
  paste "$1" "$2" | awk -v tolerance="$3" '
    NF != 2 { print "different numbers of lines"; bad = 1 }
    { a += $1; b += $2 }
    END {
      d = a - b; if (d < 0) d = -d
      if (NR == 0 || !(d <= tolerance * (b < 0 ? -b : b))) { print "means " a / NR " and " b / NR; bad = 1 }
      exit bad
    }' || fail "the means of $1 and $2 differ"
}

# use_python: sets $python to an interpreter with the packages of tests/requirements.txt.
use_python() {
  python=$source_dir/build/python/bin/python
  "$python" -c "import numpy, safetensors, tensorboard" 2> /dev/null ||
    fail "$source_dir/build/python lacks the packages of tests/requirements.txt; tools/test.sh installs them"
}
