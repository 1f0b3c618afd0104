#!/usr/bin/env bash
# Tests conversations: a model learns to answer from them, on any layout; it is asked by run.mode=infer with the same source, and
# its answers have scores; the messages about wrong conversations.
source "$2/tests/end_to_end/common.sh"

turns='{system: "<{content}>\n", user: "? {content}\n", assistant: "! {content};\n"}'
cat > run.yaml << END
data:
  train: {type: chat, path: chats.jsonl, turns: $turns}
  vocabulary: bytes
  sequence_length: 48
  cache: cache
model:
  type: lm
  d_model: 32
  num_layers: 2
  max_length: 48
  block: [SelfAttention, DenseReluDense]
  layer_defaults: {SelfAttention: {num_heads: 2, key_value_size: 16}, DenseReluDense: {hidden_size: 64}}
optimizer: adam
learning_rate: 0.01
train: {steps: 120, batch_size: 8, log_every: 1}
evaluate: {datasets: {dev: {type: chat, path: dev.jsonl, turns: $turns}}}
END
message() { printf '{"role": "%s", "content": "%s"}' "$1" "$2"; }
letters=(a b c d e f g h)
: > chats.jsonl
for ((i = 0; i < 64; i++)); do  # an answer is the question twice
  first=${letters[i % 8]}${letters[i / 8]} second=${letters[i / 8]}${letters[(i + 3) % 8]}
  echo "{\"messages\": [$(message system be), $(message user $first), $(message assistant "$first$first")," \
    "$(message user $second), $(message assistant "$second$second")], \"n\": $i}" >> chats.jsonl
done
head -n 8 chats.jsonl > dev.jsonl

expect_exit 0 "$mtf_train" run.yaml run.model_dir=one
expect_text "64 examples in 64 rows"
count=0
for layout in "mesh=rows:2 layout=batch:rows" "mesh=rows:2;cols:2 layout=batch:rows;heads:cols;d_ff:cols" \
  "train.microbatches=2"; do
  # shellcheck disable=SC2086 # two arguments
  expect_exit 0 "$mtf_train" run.yaml run.model_dir=other$((++count)) train.steps=10 $layout
  losses one | head -n 10 > expected
  losses other$count > found
  expect_close found expected 1e-4
done

# The question that has no answer, and one whose answer is known, are answered.
{
  echo "{\"messages\": [$(message system be), $(message user gb)]}"
  sed -n 10p chats.jsonl
} > asked.jsonl
chat="{type: chat, path: asked.jsonl, turns: $turns}"
expect_exit 0 "$mtf_train" one/config.yaml run.mode=infer infer.input="$chat" infer.output=answers infer.stop='[;]'
known=$(sed -n 10p chats.jsonl | sed 's/.*"content": "\([a-h]*\)"}\].*/\1/')
printf 'gbgb\n%s\n' "$known" | diff - answers || fail "other answers"
expect_exit 1 "$mtf_train" one/config.yaml run.mode=score score.data="$chat"
expect_text "conversation 1 ends without an answer to score"
expect_exit 0 "$mtf_train" one/config.yaml run.mode=score score.data="$chat" score.data.path=chats.jsonl score.output=scores score.per_token=true
sed -n 10p scores | grep -q '"pieces":\["[a-h]","[a-h]","[a-h]","[a-h]",";","[^"]*"\]' || fail "other pieces than those of the answer"

# All answers have the scores that evaluation gives them, also with tokens that begin words.
expect_exit 0 "$mtf_train" run.yaml run.model_dir=pieces train.steps=5 data.vocabulary='{type: sentencepiece, size: 300}' \
  'evaluate.datasets.dev.metrics=[loss, num_eval_tokens]'
"$mtf_train" pieces/config.yaml run.mode=evaluate 2> said > measured || { cat said >&2; fail "evaluation"; }
{ sed 's/}, {"role": "user", "content": "[^"]*"}, {"role": "assistant", "content": "[^"]*"}\]/}]/' dev.jsonl; cat dev.jsonl; } > parts.jsonl
"$mtf_train" pieces/config.yaml run.mode=score score.data="{type: chat, path: parts.jsonl, turns: $turns}" 2> said > parts.scores ||
  { cat said >&2; fail "score of parts"; }
# Only the last answer of a text ends with the end of sequence.
"$mtf_train" pieces/config.yaml run.mode=score score.data="{type: chat, path: parts.jsonl, turns: $turns}" score.per_token=true 2> said > tokens
sed 's/.*"loss":\([^,]*\),"num_eval_tokens":\([^,]*\),.*/\1 \2/' measured | awk '{ print -$1 * $2 }' > expected
head -n 8 tokens | sed 's/.*"log_probs":\[\(.*\)\].*/\1/' | awk -F, '{ for (i = 1; i < NF; i++) s += $i } END { print s }' > first
tail -n 8 parts.scores | awk '{ s += $1 } END { print s }' > last
paste first last | awk '{ print $1 + $2 }' > found
expect_close found expected 1e-4

# Wrong conversations are named.
echo '{"messages": [{"role": "tool", "content": "x"}]}' >> chats.jsonl
expect_exit 1 "$mtf_train" run.yaml run.model_dir=wrong
expect_text "chats.jsonl: line 65: message 1 is by \`tool\`, for whom \`turns\` has no text; one of system, user, assistant"
expect_exit 2 "$mtf_train" run.yaml run.model_dir=wrong "data.train.turns={user: x}"
expect_text "the turn of \`user\` has no {content}"
