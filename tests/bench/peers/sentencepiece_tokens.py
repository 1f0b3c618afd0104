"""Encodes the lines of a file by SentencePiece on one thread.

python sentencepiece_tokens.py MODEL TEXT     answers requests of harness/workers.py with the number of tokens
"""

import sys

import sentencepiece
from served import serve

LINES = 10000  # that one call encodes


def main():
    processor = sentencepiece.SentencePieceProcessor(model_file=sys.argv[1])
    with open(sys.argv[2], encoding="utf-8") as file:
        lines = file.read().split("\n")

    def encode():
        parts = (lines[i : i + LINES] for i in range(0, len(lines), LINES))
        return sum(len(ids) for part in parts for ids in processor.encode(part, num_threads=1))

    serve({"encode": encode})


main()
