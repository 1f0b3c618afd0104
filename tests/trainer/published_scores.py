#!/usr/bin/env python3
"""Random predictions with the scores that the definitions of the published scripts give them, one JSON object a line.

The definitions are written here once more, from the papers and the documentation of the scripts: conlleval (CoNLL-2000),
SQuAD 1.1 and 2.0, Matthews' coefficient, Pearson's and Spearman's. Usage: published_scores.py SEED CASES
"""
import collections, json, math, random, re, string, sys

random.seed(int(sys.argv[1]))


def case(kind, **values):
    print(json.dumps({"kind": kind, **values}))


# A chunk ends before a tag, or begins at it, by these pairs of marks, and wherever the type changes.
ENDS = {("B", "B"), ("B", "O"), ("B", "S"), ("I", "B"), ("I", "O"), ("I", "S")} | {(e, t) for e in "ES" for t in "BIESO"}
BEGINS = {(p, t) for p in "BIESO" for t in "BS"} | {(p, t) for p in "ESO" for t in "IE"}


def chunks(tags):
    found, begin, previous = set(), None, ("O", "")
    for i, tag in enumerate(list(tags) + ["O"]):
        mark, _, kind = tag.partition("-")
        changes = kind != previous[1]
        if begin is not None and ((previous[0], mark) in ENDS or (previous[0] != "O" and changes)):
            found.add((begin, i, previous[1]))
            begin = None
        if (previous[0], mark) in BEGINS or (mark != "O" and changes):
            begin = i
        previous = (mark, kind)
    return found


def entities():
    marks = random.choice(["IO", "BIO", "BIESO"])
    def tag():
        mark = random.choice(marks)
        return mark if mark == "O" else mark + "-" + random.choice(["PER", "LOC", "MISC-x"])
    sentences, found, predicted, there = [], 0, 0, 0
    for _ in range(random.randrange(1, 6)):
        gold = [tag() for _ in range(random.randrange(1, 12))]
        guess = [g if random.random() < 0.7 else tag() for g in gold]
        sentences.append([gold, guess])
        a, b = chunks(gold), chunks(guess)
        found, predicted, there = found + len(a & b), predicted + len(b), there + len(a)
    precision, recall = found / predicted if predicted else 0, found / there if there else 0
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0
    case("entities", sentences=sentences, precision=precision, recall=recall, f1=f1)


def normalize(text):
    text = "".join(c for c in text.lower() if c not in set(string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def word_f1(prediction, truth, version_2):
    a, b = normalize(prediction).split(), normalize(truth).split()
    if version_2 and (not a or not b):
        return float(a == b)
    same = sum((collections.Counter(a) & collections.Counter(b)).values())
    if same == 0:
        return 0.0
    precision, recall = same / len(a), same / len(b)
    return 2 * precision * recall / (precision + recall)


def answers():
    version_2 = random.random() < 0.5
    words = ["the", "The", "a", "an", "Theo", "cat", "ÉTÉ", "été", "\u00a0", "x-ray", "1,000", "ΣΑΣ", "A\u0301", "!", "don't", "²", "東", "a_b", "…", "the…", "İ"]
    def text(least):
        return random.choice([" ", "  ", "-"]).join(random.choices(words, k=random.randrange(least, 5)))
    questions, exact, f1 = [], 0, 0
    for _ in range(random.randrange(1, 8)):
        right = [text(1) for _ in range(random.randrange(0 if version_2 else 1, 4))]
        answer = random.choice(right) if right and random.random() < 0.3 else text(0)
        questions.append([answer, right])
        truths = ([t for t in right if normalize(t)] or [""]) if version_2 else right
        exact += max(normalize(answer) == normalize(t) for t in truths)
        f1 += max(word_f1(answer, t, version_2) for t in truths)
    n = len(questions)
    case("answers", version_2=version_2, questions=questions, exact_match=100 * exact / n, f1=100 * f1 / n)


def correlation(a, b):
    mean_a, mean_b = sum(a) / len(a), sum(b) / len(b)
    covariance = sum((x - mean_a) * (y - mean_b) for x, y in zip(a, b))
    variance = sum((x - mean_a) ** 2 for x in a) * sum((y - mean_b) ** 2 for y in b)
    return covariance / math.sqrt(variance) if variance > 1e-18 else 0


def numbers():
    n, digits = random.randrange(2, 40), random.choice([0, 1, 8])
    a = [round(random.gauss(0, 2), digits) for _ in range(n)]
    b = [round(x + random.gauss(0, 2), digits) for x in a]
    ranks = lambda x: [sum(z < y for z in x) + (sum(z == y for z in x) + 1) / 2 for y in x]
    case("numbers", a=a, b=b, pearson=correlation(a, b), spearman=correlation(ranks(a), ranks(b)))


def classes():
    k, n = random.randrange(2, 5), random.randrange(1, 50)
    labels = [random.randrange(k) for _ in range(n)]
    predictions = [label if random.random() < 0.6 else random.randrange(k) for label in labels]
    # The covariance of one-hot vectors over all classes, which for two classes is the coefficient by its usual formula.
    def covariance(x, y):
        return sum(sum((xi == c) * (yi == c) for xi, yi in zip(x, y)) / n - x.count(c) * y.count(c) / n / n for c in range(k))
    variance = covariance(labels, labels) * covariance(predictions, predictions)
    matthews = covariance(labels, predictions) / math.sqrt(variance) if variance > 1e-18 else 0
    right = [sum(l == p == c for l, p in zip(labels, predictions)) for c in range(k)]
    f1 = [2 * right[c] / (labels.count(c) + predictions.count(c)) if labels.count(c) + predictions.count(c) else 0 for c in range(k)]
    case("classes", classes=k, labels=labels, predictions=predictions, matthews=matthews, f1_micro=sum(right) / n, f1_binary=f1[1])


for _ in range(int(sys.argv[2])):
    for kind in (entities, answers, numbers, classes):
        kind()
