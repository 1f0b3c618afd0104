#!/usr/bin/env bash
# Tests alignments: a translator of backward sentences learns the known alignment and tells it of sentences that it has not
# seen, in every form; layouts, the stages of a pipeline and ensembles change nothing.
source "$2/tests/end_to_end/common.sh"
use_python

backward_sentences
backward_links() {
  awk '{ line = ""; for (i = 0; i < NF; i++) line = line (i ? " " : "") i "-" (NF - 1 - i); print line }' "$1"
}
backward_links train.in > train.links
{
  backward_translator 32 8 64 |
    sed 's/targets: train.out/&, alignments: train.links/; s/decoder: {num_layers: 1/decoder: {num_layers: 2/'
  cat << 'YAML'
  alignment: {weight: 1}
optimizer: {type: adam}
learning_rate: 0.005
train: {steps: 150, batch_size: 16, log_every: 50}
YAML
} > translate.yaml
expect_exit 0 "$mtf_train" translate.yaml run.model_dir=run
grep -q '"loss/alignment":' run/metrics.jsonl || fail "the loss of the alignment is not reported"

# align MODE ARGUMENT...: writes the lines of the mode to `out`.
align() {
  local mode=$1
  shift
  "$mtf_train" run/config.yaml run.mode="$mode" "$@" > out 2> "$work/said" || { cat "$work/said" >&2; fail "$mode $*"; }
}
score=(score.inputs=test.in score.targets=test.out)

# ---- What was taught ----
align score "${score[@]}" score.alignment=words
backward_links test.in > known
cut -d'|' -f4- out > told
"$python" - << 'END' || fail "the alignments are not those that were taught"
known = [set(line.split()) for line in open("known")]
told = [set(line.split()) for line in open("told")]
assert len(known) == len(told) == 40
right = sum(len(a & b) for a, b in zip(known, told))
error = 1 - 2 * right / sum(len(a) + len(b) for a, b in zip(known, told))
assert error < 0.15, error
END
align infer infer.input=test.in infer.alignment=words
[ "$(grep -c ' ||| [0-9]' out)" = 40 ] || fail "texts come without alignments: $(head -n 3 out)"
printf '\n' > blank
align infer infer.input=blank infer.alignment=words
[ "$(cat out)" = " |||" ] || fail "a blank line has an alignment: $(cat out)"

# ---- Weights, on every layout ----
weights=("${score[@]}" score.per_token=true score.alignment=weights)
align score "${weights[@]}"
mv out whole
for layout in "batch:x;heads:y" "length:x" "layers:x"; do
  align score "${weights[@]}" "mesh=x:2;y:2" "layout=$layout"
  mv out "split"
  "$python" - << 'END' || fail "weights differ with layout $layout"
import json
for line, other in zip(open("whole"), open("split"), strict=True):
    a, b = json.loads(line), json.loads(other)
    assert len(a["alignment_weights"]) == len(a["pieces"]) and a["pieces"] == b["pieces"]
    for x, y in zip(a["alignment_weights"], b["alignment_weights"], strict=True):
        assert len(x) == len(a["input_pieces"]) and abs(sum(x) - 1) < 1e-5
        assert max(abs(p - q) for p, q in zip(x, y, strict=True)) < 1e-5
END
done
align score "${weights[@]}" "score.checkpoint=[150, 150]" score.ensemble=true
"$python" - << 'END' || fail "equal members tell another alignment"
import json
whole, together = ([json.loads(line)["alignment_weights"] for line in open(name)] for name in ("whole", "out"))
assert whole == together
END
align infer infer.input=test.in infer.prefix=test.in infer.format=jsonl infer.alignment=weights
"$python" - << 'END' || fail "a text with a prefix has weights of other tokens"
import json
for line in map(json.loads, open("out")):
    assert len(line["alignment_weights"]) == len(line["pieces"])
END
align score "${score[@]}" score.per_token=true score.alignment=tokens
grep -q '"alignment":\[\[0,' out || fail "no links of tokens: $(head -n 1 out)"

# ---- What cannot be done ----
expect_exit 2 "$mtf_train" run/config.yaml run.mode=infer infer.input=test.in infer.alignment=weights
expect_text "weights of alignments are written in JSON; \`infer.format: jsonl\`"
expect_exit 2 "$mtf_train" translate.yaml run.model_dir=no model.alignment.weight=0
expect_text "the model does not learn the \`alignments\` of the data"
expect_exit 2 "$mtf_train" translate.yaml run.model_dir=no data.train.alignments=[]
expect_text "\`model.alignment.weight\` needs alignments, which the data do not have"
expect_exit 2 "$mtf_train" translate.yaml run.model_dir=no model.alignment.layer=2
expect_text "\`alignment.layer\` is 2, and the decoder has 2 blocks; 0 to 1"
cat > lm.yaml << 'YAML'
data: {train: {type: text, path: train.in}, vocabulary: {type: bytes}, sequence_length: 48, cache: cache}
model: {type: lm, d_model: 8, max_length: 48, block: [SelfAttention], num_layers: 1}
optimizer: adafactor
train: {steps: 1}
YAML
expect_exit 0 "$mtf_train" lm.yaml run.model_dir=lm
expect_exit 2 "$mtf_train" lm/config.yaml run.mode=score score.targets=test.in score.alignment=words
expect_text "\`score.alignment\` is the attention of a decoder to an encoder, and the model has none"
echo "ok"
