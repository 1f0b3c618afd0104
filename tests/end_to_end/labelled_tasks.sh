# Sourced by tests of labelled texts: makes train and dev sets, and the configurations classes.yaml (a class of a text),
# numbers.yaml (a number for a pair of texts), tags.yaml (tags of words) and answers.yaml (answers to questions).
python3 - << 'END'
import json, random
random.seed(3)
names, places, others = "ada bob eve".split(), "rome oslo".split(), "the old red sun sees good bad".split()
def sentence():
    return [random.choice(others + names + places) for _ in range(random.randrange(3, 9))]
for part, count in (("train", 192), ("dev", 45)):
    with open(part + ".tsv", "w") as classes, open(part + ".jsonl", "w") as numbers, open(part + ".conll", "w") as tags:
        classes.write("text\tlabel\n")
        for _ in range(count):
            words = sentence()
            classes.write(" ".join(words) + "\t" + ("person" if set(words) & set(names) else "none") + "\n")
            other = sentence()
            numbers.write(json.dumps({"a": " ".join(words), "b": " ".join(other), "score": len(set(words) & set(other)) / 2}) + "\n")
            for word in words:
                tags.write(word + " " + ("B-PER" if word in names else "B-LOC" if word in places else "O") + "\n")
            tags.write("\n")
    paragraphs = []
    for i in range(count // 3):
        words = sentence() + sentence() + sentence()
        text, questions = " ".join(words), []
        for j, word in enumerate(("ada", "oslo", "bob")):
            answers = [{"text": word, "answer_start": text.index(word)}] if word in words else []
            questions.append({"id": f"{i}-{j}", "question": "where " + word, "answers": answers, "is_impossible": not answers})
        paragraphs.append({"context": text, "qas": questions})
    json.dump({"version": "v2.0", "data": [{"title": "t", "paragraphs": paragraphs}]}, open(part + ".json", "w"))
END

cat > base.yaml << 'END'
data: {vocabulary: bytes, sequence_length: 40}
model:
  layers:
    - embedding: {output: {d_model: 16}}
    - token_types
    - positions: learned
    - transformer: {num_layers: 1, block: [{SelfAttention: {num_heads: 2, key_value_size: 8}}, {DenseReluDense: {hidden_size: 32}}]}
optimizer: adam
learning_rate: 0.01
train: {steps: 20, batch_size: 16}
evaluate: {every: 10, batch_size: 8}
END
# Each task is its source, its model with the layers that the task adds, and its metrics.
python3 - << 'END'
base = open("base.yaml").read()
tasks = {
    "classes": ("type: labelled_text, path: {}.tsv, text: text, labels: label", "type: classifier\n  input: inputs",
                ["pooler", "dense: {output: {classes: 2}}"], "loss, accuracy, f1, f1_micro, f1_binary, matthews"),
    "numbers": ("type: labelled_text, path: {}.jsonl, text: a, pair: b, targets: score", "type: regression\n  input: inputs",
                ["pooler: mean", "dense: {output: {targets: 1}}"], "loss, pearson, spearman"),
    "tags": ("type: conll, path: {}.conll", "type: tagger", ["dense: {output: {tags: 3}}"],
             "loss, accuracy, f1, entity_precision, entity_recall, entity_f1"),
    "answers": ("type: squad, path: {}.json, stride: 8, max_question: 16", "type: spans", ["dense: {output: {span: 2}}"],
                "loss, accuracy, exact_match, answer_f1"),
}
for name, (source, model, layers, metrics) in tasks.items():
    text = base.replace("data: {", "data: {train: {" + source.format("train") + "}, ")
    text = text.replace("model:\n", "model:\n  " + model + "\n")
    text = text.replace("optimizer:", "".join(f"    - {layer}\n" for layer in layers) + "optimizer:")
    command = '{name: command, command: "python3 agree.py {predictions} {references}"}'
    text = text.replace("evaluate: {", "evaluate: {datasets: {dev: {" + source.format("dev") + f", metrics: [{metrics}, {command}]" + "}}, ")
    open(name + ".yaml", "w").write(text)
END
cat > agree.py << 'END'
import sys
predictions, references = (open(path).read().split("\n")[:-1] for path in sys.argv[1:])
assert len(predictions) == len(references) > 0
print("lines:", len(predictions))
print(sum(a == b for a, b in zip(predictions, references)) / len(predictions))
END
