#!/usr/bin/env bash
# Tests direct preference optimisation: a model that knows two answers equally well learns the chosen one; the losses are the same
# on every layout, with microbatches, over processes and after a restart; run.mode=evaluate measures pairs; with LoRA the
# reference model is the one without its matrices; what does not go together is refused.
source "$2/tests/end_to_end/common.sh"

# The answer to a question of two letters is the first or the second of them; the first is preferred.
letters=(a b c d e f g h)
: > texts.jsonl
: > pairs.jsonl
for ((i = 0; i < 56; i++)); do
  a=${letters[i % 8]} b=${letters[(i + 1 + i / 8) % 8]}
  for answer in "$a" "$b"; do
    echo "{\"messages\": [{\"role\": \"user\", \"content\": \"$a$b\"}, {\"role\": \"assistant\", \"content\": \"$answer\"}]}" >> texts.jsonl
  done
  echo "{\"prompt\": \"$a$b?\", \"chosen\": \"$a\", \"rejected\": \"$b\"}" >> pairs.jsonl
done
turns='{user: "{content}?", assistant: "{content}"}'
cat > model.yaml << 'END'
run: {threads: 1}
data: {vocabulary: bytes, sequence_length: 24, cache: cache}
vars: {dropout: 0.1}
model:
  type: lm
  d_model: 32
  max_length: 24
  num_layers: 2
  dropout: $dropout
  block: [SelfAttention, DenseReluDense]
  layer_defaults: {SelfAttention: {num_heads: 4, key_value_size: 8}, DenseReluDense: {hidden_size: 64}}
optimizer: {type: adam, epsilon: 1e-5}
learning_rate: 0.01
END
cat > first.yaml << END
include: model.yaml
data: {train: {type: chat, path: texts.jsonl, turns: $turns}}
train: {steps: 60, batch_size: 8}
END
cat > preferred.yaml << 'END'
include: model.yaml
data: {train: {type: preferences, path: pairs.jsonl}, packing: none}
learning_rate: 0.002
train: {steps: 30, batch_size: 8, log_every: 1}
checkpoint: {init: {path: first}, every: 15, keep_last: 3}
preference: {beta: 0.5}
evaluate: {datasets: {dev: {type: preferences, path: pairs.jsonl}}, batch_size: 8}
END
expect_exit 0 "$mtf_train" first.yaml run.model_dir=first
expect_exit 0 "$mtf_train" preferred.yaml run.model_dir=one
expect_text "the reference model is first/checkpoints/step-00000060"
expect_text "56 examples in 56 rows"
losses one > one.losses
! grep -q '"teacher/' one/checkpoints/step-00000030/manifest.json || fail "the checkpoint holds the reference model"
[ "$(tail -n 1 one/evaluate.jsonl | sed 's/.*"rewards\/accuracies":\([0-9.]*\).*/\1/')" = 1 ] ||
  fail "the preferences are not learned: $(tail -n 1 one/evaluate.jsonl)"
grep -q '"report/rewards/margins"' one/metrics.jsonl || fail "the log has no margins"

# What a run measures last and run.mode=evaluate are the same; a model that is not trained has log 2 as its loss.
expect_exit 0 "$mtf_train" one/config.yaml run.mode=evaluate
measured() { sed 's/.*\("loss":[^,]*\).*\("rewards\/margins":[^,]*\),.*/\1 \2/'; }
[ "$(grep '^{' out | measured)" = "$(tail -n 1 one/evaluate.jsonl | measured)" ] || fail "run.mode=evaluate measures something else"
expect_exit 0 "$mtf_train" one/config.yaml run.mode=evaluate evaluate.checkpoint=first
expect_text '"loss":0.69314'

declare -A layouts=(
  [data]="mesh=x:2 layout=batch:x"
  [square]="mesh=x:2;y:2 layout=batch:x;heads:y;d_ff:y;vocab:y"
  [length]="mesh=x:2 layout=length:x"
  [own]="mesh=x:2 layout=batch:x preference.layout=heads:x;d_ff:x;vocab:x"
  [parts]="train.microbatches=4 train.recompute=block"
  [stages]="mesh=x:2 layout=layers:x train.microbatches=4")
expect_losses_of_one preferred.yaml 1e-3 15

# With LoRA the reference model is the one without its matrices.
lora=(checkpoint.init.exclude='[lora_]' model.layer_defaults.SelfAttention.lora='{rank: 4, alpha: 8}' optimizer.rules='[{match: "^(?!.*lora_)", frozen: true}]')
expect_exit 0 "$mtf_train" preferred.yaml run.model_dir=thin "${lora[@]}" vars.dropout=0 train.steps=2
losses thin > thin.losses
[[ $(head -n 1 thin.losses) == *0.693* ]] || fail "matrices of LoRA begin with another loss: $(cat thin.losses)"
expect_exit 0 "$mtf_train" one/config.yaml run.mode=infer infer.input="{type: chat, path: texts.jsonl, turns: $turns}"

refused() {
  expect_exit 2 "$mtf_train" preferred.yaml run.model_dir=refused "${@:2}"
  expect_text "$1"
  [ ! -e refused/checkpoints ] || fail "a refused run has begun"
}
refused "\`preference\` has no reference model" checkpoint.init=null
refused "of pairs of answers, as in \`data.train\`, the model would learn both" preference=null
refused "\`preference\` compares two answers, and \`evaluate.datasets.dev\` has single texts" \
  evaluate.datasets="{dev: {type: text, path: pairs.jsonl}}"
refused "\`chosen\` is the key of both answers" data.train.rejected=chosen
refused "\`preference\` and \`distill\` both make the loss" distill="{checkpoint: first}"
refused "each pair of answers has a row, which holds no other texts; \`data.packing: none\`" data.packing=dense
refused "the reference model first/checkpoints/step-00000060 was trained with another vocabulary" \
  data.vocabulary="{type: bytes, extra_ids: 4}" preference.checkpoint=first checkpoint.init=null
expect_exit 2 "$mtf_train" one/config.yaml run.mode=infer infer.input="{type: preferences, path: pairs.jsonl}"
expect_text "whose prompts have two answers each"
echo "ok"
