"""What both corpora do with their documents: some stay out of all splits, and the results are written with their counts."""
import hashlib
import json
import os

from texts import stable_hash


def is_kept_out(document):
    """One document in fifty is in no split: text for later checks that no model has seen."""
    return stable_hash("held:" + document) % 50 == 7


def write(path, body):
    """Writes the text; returns its size and checksum."""
    with open(path, "w", encoding="utf-8") as file:
        file.write(body)
    data = body.encode("utf-8")
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def write_counts(directory, counts):
    text = json.dumps(counts, indent=1)
    with open(os.path.join(directory, "counts.json"), "w", encoding="utf-8") as file:
        file.write(text + "\n")
    print(text)
