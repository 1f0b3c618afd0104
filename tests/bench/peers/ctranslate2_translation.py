"""Translates a file by CTranslate2: pieces by SentencePiece, lines of like length together.

python ctranslate2_translation.py MODEL VOCABULARY INPUT OUTPUT [--threads 1] [--beam 4] [--batch 64] ...
"""

import argparse

import ctranslate2
import sentencepiece


def main():
    parser = argparse.ArgumentParser()
    for name in ("model", "vocabulary", "input", "output"):
        parser.add_argument(name)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--length-penalty", type=float, default=0.6)
    parser.add_argument("--length-factor", type=int, default=2)
    options = parser.parse_args()
    pieces = sentencepiece.SentencePieceProcessor(model_file=options.vocabulary)
    translator = ctranslate2.Translator(
        options.model, device="cpu", compute_type="float32", inter_threads=options.threads, intra_threads=1
    )
    with open(options.input, encoding="utf-8") as file:
        lines = pieces.encode(file.read().split("\n")[:-1], out_type=str)
    order = sorted(range(len(lines)), key=lambda i: -len(lines[i]))
    chunks = [order[at : at + options.batch] for at in range(0, len(order), options.batch)]
    results = [
        translator.translate_batch(
            [lines[i] for i in chunk],
            beam_size=options.beam,
            length_penalty=options.length_penalty,
            max_decoding_length=options.length_factor * (len(lines[chunk[0]]) + 1),
            asynchronous=True,
        )
        for chunk in chunks
    ]
    texts = [""] * len(lines)
    for chunk, found in zip(chunks, results):
        for i, translation in zip(chunk, found):
            texts[i] = pieces.decode(translation.result().hypotheses[0])
    with open(options.output, "w", encoding="utf-8") as file:
        file.writelines(text + "\n" for text in texts)


main()
