"""Masked language models and classifiers of comparisons/encoders.py in PyTorch (transformers, eager).

python torch_encoders.py NAME.task.json     does a task and writes NAME.result.json
"""

import csv
import json
import sys
import time

import sentencepiece
import torch
import torch.nn.functional as F
import transformers
from encoders_recipe import D_FF, D_MODEL, DROPOUT, HEADS, LABELS, LAYERS, LENGTH, WARM_UP

MEASURED = 64  # rows at a time
EOS = 1  # stands around a text
HIDDEN, MASKED, OTHER = 0.15, 0.8, 0.1  # share of tokens that are predicted; of those, masked or replaced by another one


class Family:
    """The encoder `bert` or `mpnet` of transformers."""

    def __init__(self, name):
        self.name = name

    def model(self, kind):
        return getattr(transformers, {"bert": "Bert", "mpnet": "MPNet"}[self.name] + kind)

    def config(self, task, pieces):
        """The table has a row for the token that hides others, and is filled up to a multiple of 128, as mtf-train's."""
        # MPNet counts positions from the number of the padding on, which must be 1.
        pad, positions = (0, LENGTH) if self.name == "bert" else (1, LENGTH + 2)
        return self.model("Config")(
            vocab_size=-(-(pieces + 1) // 128) * 128, hidden_size=D_MODEL, num_hidden_layers=LAYERS,
            num_attention_heads=HEADS, intermediate_size=D_FF, max_position_embeddings=positions, num_labels=len(LABELS),
            pad_token_id=pad, hidden_dropout_prob=DROPOUT[task], attention_probs_dropout_prob=DROPOUT[task],
        )  # fmt: skip

    def ids(self, ids):
        """MPNet's numbers of the padding and of the boundary of texts, 0 and 1 here, are the other way round."""
        return ids if self.name == "bert" else torch.where(ids < 2, 1 - ids, ids)

    def encoder(self, network):
        return getattr(network, self.name)

    def hidden_logits(self, network, read, predicted):
        head = network.cls if self.name == "bert" else network.lm_head
        return head(self.encoder(network)(input_ids=self.ids(read)).last_hidden_state[predicted])


def initialise(options):
    """Writes initial weights of both models."""
    family = Family(options["family"])
    torch.manual_seed(options["seed"])
    for task, kind in (("pretrain", "ForMaskedLM"), ("classify", "ForSequenceClassification")):
        family.model(kind)(family.config(task, options["pieces"])).save_pretrained(f"{options['run']}/{task}")
    return {}


def rows_of_text(path, processor):
    """[rows, LENGTH]: all documents, one after the other, cut into rows."""
    ids = []
    with open(path, encoding="utf-8", newline="\n") as file:
        for encoded in processor.encode(file.readlines()):
            ids += encoded or ids and ids[-1] != EOS and [EOS] or []
    rows = torch.tensor(ids)[: len(ids) // (LENGTH - 2) * (LENGTH - 2)].view(-1, LENGTH - 2)
    return torch.nn.functional.pad(rows, (1, 1), value=EOS)


def hide(rows, mask, generator):
    """What the model reads, and which of its tokens are predicted."""
    count = round(HIDDEN * LENGTH)
    draws = torch.rand(rows.shape, generator=generator)
    draws[:, 0] = draws[:, -1] = -1
    predicted = torch.zeros_like(rows, dtype=torch.bool).scatter_(1, draws.topk(count).indices, True)
    kind = torch.rand(rows.shape, generator=generator)
    others = torch.randint(mask + 1, rows.shape, generator=generator)
    read = torch.where(kind < MASKED, mask, torch.where(kind < MASKED + OTHER, others, rows))
    return torch.where(predicted, read, rows), predicted


def measure_hidden(family, network, rows, mask):
    """Loss and accuracy of hidden tokens, which are the same in each call."""
    network.eval()
    generator = torch.Generator().manual_seed(1)
    loss = right = count = 0
    with torch.no_grad():
        for batch in rows.split(MEASURED):
            read, predicted = hide(batch, mask, generator)
            logits, targets = family.hidden_logits(network, read, predicted), family.ids(batch[predicted])
            loss += F.cross_entropy(logits, targets, reduction="sum").item()
            right += (logits.argmax(-1) == targets).sum().item()
            count += len(targets)
    network.train()
    return {"loss": loss / count, "accuracy": right / count, "tokens": count}


def labelled(path, processor):
    """(ids, label) of each row."""
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    encoded = processor.encode([row["text"] for row in rows])
    return [([EOS, *ids[: LENGTH - 2], EOS], LABELS.index(row["label"])) for ids, row in zip(encoded, rows, strict=True)]


def padded(examples):
    longest = max(len(ids) for ids, _ in examples)
    ids = torch.tensor([ids + [0] * (longest - len(ids)) for ids, _ in examples])
    return ids, (ids != 0).long(), torch.tensor([label for _, label in examples])


def measure_labels(family, network, examples):
    network.eval()
    right = 0
    with torch.no_grad():
        for i in range(0, len(examples), MEASURED):
            ids, mask, labels = padded(examples[i : i + MEASURED])
            right += (network(input_ids=family.ids(ids), attention_mask=mask).logits.argmax(-1) == labels).sum().item()
    network.train()
    return {"accuracy": right / len(examples)}


def make_optimizer(network, task, steps, rate):
    kinds = {False: [], True: []}
    for name, weight in network.named_parameters():
        kinds["norm" in name.lower() or "bias" in name].append(weight)
    groups = [{"params": kinds[False], "weight_decay": 0.01}, {"params": kinds[True], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=rate, fused=True)
    rising = max(1, round(WARM_UP[task] * steps))
    factor = lambda step: min((step + 1) / rising, (steps - step) / (steps - rising))
    return optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


def train_by_torch(network, task, steps, rate, batch_loss):
    """Calls batch_loss() for each step; returns its losses."""
    optimizer, schedule = make_optimizer(network, task, steps, rate)
    losses = []
    for step in range(steps):
        optimizer.zero_grad(set_to_none=True)
        loss = batch_loss()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        if step % 100 == 99:
            print(f"step {step + 1} loss {sum(losses[-100:]) / 100:.4f}", flush=True)
    return losses


def pretrain(options):
    family = Family(options["family"])
    torch.manual_seed(options["seed"])
    generator = torch.Generator().manual_seed(options["seed"])
    processor = sentencepiece.SentencePieceProcessor(model_file=options["vocabulary"])
    mask = processor.get_piece_size()
    network = family.model("ForMaskedLM").from_pretrained(f"{options['initial']}/pretrain").train()
    rows = rows_of_text(f"{options['data']}/train.txt", processor)
    order = iter(())

    def batch_loss():
        nonlocal order
        numbers = next(order, None)
        if numbers is None or len(numbers) < options["batch"]:
            order = iter(torch.randperm(len(rows), generator=generator).split(options["batch"]))
            numbers = next(order)
        read, predicted = hide(rows[numbers], mask, generator)
        return F.cross_entropy(family.hidden_logits(network, read, predicted), family.ids(rows[numbers][predicted]))

    begin = time.process_time()
    train_by_torch(network, "pretrain", options["steps"], options["rate"], batch_loss)
    seconds = time.process_time() - begin
    network.save_pretrained(options["run"])
    valid = rows_of_text(f"{options['work']}/valid.txt", processor)
    return {"rows": len(rows), "step_cpu_seconds": seconds, **measure_hidden(family, network, valid, mask)}


def measure(options):
    """A masked language model that mtf-train has trained."""
    family = Family(options["family"])
    processor = sentencepiece.SentencePieceProcessor(model_file=options["vocabulary"])
    network = family.model("ForMaskedLM").from_pretrained(options["run"])
    valid = rows_of_text(f"{options['work']}/valid.txt", processor)
    return measure_hidden(family, network, valid, processor.get_piece_size())


def classify(options):
    family = Family(options["family"])
    torch.manual_seed(options["seed"])
    generator = torch.Generator().manual_seed(options["seed"])
    processor = sentencepiece.SentencePieceProcessor(model_file=options["vocabulary"])
    train, valid = (labelled(f"{options['data']}/shuffled.{part}.tsv", processor) for part in ("train", "valid"))
    network = family.model("ForSequenceClassification").from_pretrained(f"{options['initial']}/classify").train()
    if options["start"]:
        pretrained = family.encoder(family.model("ForMaskedLM").from_pretrained(options["start"]))
        family.encoder(network).load_state_dict(pretrained.state_dict(), strict=False)  # it has no pooler
    numbers = iter(())

    def batch_loss():
        nonlocal numbers
        chosen = next(numbers, None)
        if chosen is None:
            numbers = iter(torch.randperm(len(train), generator=generator).split(options["batch"]))
            chosen = next(numbers)
        ids, mask, labels = padded([train[i] for i in chosen.tolist()])
        return network(input_ids=family.ids(ids), attention_mask=mask, labels=labels).loss

    steps = options["epochs"] * -(-len(train) // options["batch"])
    begin = time.process_time()
    train_by_torch(network, "classify", steps, options["rate"], batch_loss)
    return {"steps": steps, "step_cpu_seconds": time.process_time() - begin, **measure_labels(family, network, valid)}


TASKS = {"initialise": initialise, "pretrain": pretrain, "measure": measure, "classify": classify}


def run_task(path):
    """Writes what the task returns behind its description."""
    with open(path, encoding="utf-8") as file:
        options = json.load(file)
    torch.set_num_threads(options["threads"])
    transformers.logging.set_verbosity_error()
    result = TASKS[options["task"]](options)
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    with open(path.removesuffix(".task.json") + ".result.json", "w", encoding="utf-8") as file:
        json.dump({**result, **versions}, file)


run_task(sys.argv[1])
