#!/usr/bin/env bash
# Tests prefix language models, which attend to the prompt in both directions: the log-probabilities of
# decoding are those of scoring the same text after the same prompt, with and without a forced beginning,
# which is not part of the prompt.
source "$2/tests/end_to_end/common.sh"
use_python

awk 'BEGIN {
  srand(3)
  n = split("the a red small quiet old cat dog bird man river house sees finds likes paints stone window boat song", words, " ")
  for (i = 0; i < 600; i++) {
    line = ""
    for (left = 3 + int(rand() * 6); left > 0; left--) line = line (line ? " " : "") words[1 + int(rand() * n)]
    print line
  }
}' > train.in
rev train.in > train.out
head -n 60 train.in > test.in

for type in lm delimited_lm; do
  cat > $type.yaml << END
data: {train: {type: parallel, inputs: train.in, targets: train.out, as: targets}, vocabulary: bytes, sequence_length: 96, cache: cache}
model:
  type: $type
  d_model: 32
  num_layers: 2
  max_length: 96
  input_full_attention: true
  layer_defaults: {SelfAttention: {num_heads: 4, key_value_size: 8}, DenseReluDense: {hidden_size: 64}}
  block: [SelfAttention, DenseReluDense]
train: {steps: 120, batch_size: 16, log_every: 40}
checkpoint: {every: 120}
END
  expect_exit 0 "$mtf_train" $type.yaml run.model_dir=$type
done

# infer TYPE ARGUMENT... and score TYPE ARGUMENT... write to standard output.
infer() {
  "$mtf_train" "$1/config.yaml" run.mode=infer infer.input=test.in infer.max_length=24 infer.format=jsonl "${@:2}" 2> said ||
    { cat said >&2; fail "infer $*"; }
}
score() {
  "$mtf_train" "$1/config.yaml" run.mode=score score.per_token=true "${@:2}" 2> said || { cat said >&2; fail "score $*"; }
}
# texts_of BEGINNINGS WRITTEN: prints the lines of BEGINNINGS, each continued with the generated text.
cat > texts_of.py << 'END'
import json, sys
for begin, written in zip(open(sys.argv[1]), open(sys.argv[2]), strict=True):
    print(begin.rstrip("\n") + json.loads(written)["text"])
END
# compare WRITTEN SCORED: the last tokens of each text must have the same log-probabilities in both.
cat > compare.py << 'END'
import json, sys
def load(name):
    return [json.loads(line) for line in open(name)]
compared = 0
for written, scored in zip(load(sys.argv[1]), load(sys.argv[2]), strict=True):
    n = len(written["pieces"])
    for end in (len(scored["pieces"]), len(scored["pieces"]) - 1):  # a text can end at infer.max_length
        if scored["pieces"][end - n:end] != written["pieces"]:  # bytes that are no UTF-8 do not come back as they were
            continue
        compared += 1
        for a, b in zip(written["log_probs"], scored["log_probs"][end - n:end], strict=True):
            assert abs(a - b) <= 1e-5 * max(1, abs(a)), (written, scored)
        break
print(compared, "texts agree")
assert compared >= 30, compared
END
: > nothing
for ((i = 0; i < 60; i++)); do echo >> nothing; done
cut -c 1-3 test.in > beginnings
for type in lm delimited_lm; do
  for method in greedy beam "{type: sample, top_k: 5}"; do
    for begin in nothing beginnings; do
      infer $type "infer.method=$method" infer.prefix=$begin > written.jsonl
      "$python" texts_of.py $begin written.jsonl > texts
      score $type score.inputs=test.in score.targets=texts > scored.jsonl
      "$python" compare.py written.jsonl scored.jsonl || fail "$type, $method, $begin: decoding and scoring disagree"
    done
  done
done

# Where the training data end prompts, both types are the same model and read the same prompt.
for type in lm delimited_lm; do
  infer $type infer.method=greedy > written.$type
  score $type score.inputs=test.in score.targets=test.in > scored.$type
done
cmp written.lm written.delimited_lm || fail "lm writes other texts than delimited_lm"
cmp scored.lm scored.delimited_lm || fail "lm scores other texts than delimited_lm"
pairs='pairs: {type: parallel, inputs: train.in, targets: train.out, as: targets}'
infer lm data.train=null "data.train={$pairs, texts: {type: text, path: train.in}}" > written.jsonl
grep -q "warning: some sources of .data.train. end prompts" said || fail "sources of two kinds have no warning"

# Without a prompt each token attends only to those before it.
score lm score.targets=test.in > whole.jsonl
sed 's/$/ boat/' test.in > longer
score lm score.targets=longer > longer.jsonl
"$python" - << 'END'
import json
for whole, longer in zip(open("whole.jsonl"), open("longer.jsonl"), strict=True):
    whole, longer = json.loads(whole)["log_probs"][:-1], json.loads(longer)["log_probs"]
    assert all(abs(a - b) < 1e-4 for a, b in zip(whole, longer)), (whole, longer)
END
