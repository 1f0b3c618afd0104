"""Decodes random texts by a model of random weights in CTranslate2, whose shape is that of comparisons/decoding.py.

python ctranslate2_decoding.py DIRECTORY THREADS --layers=3 ...     answers requests of harness/workers.py
"""

import argparse
import os
import random
import shutil

import ctranslate2
import torch
from ctranslate2.converters import transformers as converters
from served import serve
from transformers import MarianConfig, MarianMTModel


def write_model(options, pieces):
    """Fills the model of the Transformer in CTranslate2 by its own loader of Marian models."""
    torch.manual_seed(0)
    config = MarianConfig(
        vocab_size=options.vocabulary, decoder_vocab_size=options.vocabulary, d_model=options.width,
        encoder_layers=options.layers, decoder_layers=options.layers, encoder_attention_heads=options.heads,
        decoder_attention_heads=options.heads, encoder_ffn_dim=options.hidden, decoder_ffn_dim=options.hidden,
        max_position_embeddings=256, activation_function="relu", pad_token_id=options.vocabulary - 1, eos_token_id=0,
        decoder_start_token_id=options.vocabulary - 1, scale_embedding=True, static_position_embeddings=True,
        tie_word_embeddings=True, normalize_before=False, normalize_embedding=False,
    )  # fmt: skip

    class Loader(type(converters._MODEL_LOADERS["MarianConfig"])):
        def get_vocabulary(self, model, tokenizer):
            return list(pieces)

    spec = converters.BartLoader.get_model_spec(Loader(), MarianMTModel(config).eval())
    spec.register_source_vocabulary(pieces)
    spec.register_target_vocabulary(pieces)
    spec.config.bos_token, spec.config.eos_token, spec.config.unk_token = "<pad>", "</s>", "t1"
    spec.config.decoder_start_token = "<pad>"
    spec.validate()
    spec.optimize(quantization="float32")
    shutil.rmtree(options.directory, ignore_errors=True)
    os.makedirs(options.directory)
    spec.save(options.directory)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("directory")
    parser.add_argument("threads", type=int)
    parser.add_argument("--type", default="float32")
    for name in ("layers", "width", "hidden", "heads", "vocabulary"):
        parser.add_argument(f"--{name}", type=int)
    options = parser.parse_args()
    pieces = ["</s>", *(f"t{i}" for i in range(1, options.vocabulary - 1)), "<pad>"]
    write_model(options, pieces)
    translator = ctranslate2.Translator(
        options.directory, device="cpu", compute_type=options.type, inter_threads=1, intra_threads=options.threads
    )

    def decode(beam, batch, input, output, repeats):
        draw = random.Random(1)
        texts = [[*draw.choices(pieces[1:-1], k=input - 1), "</s>"] for _ in range(batch)]
        for _ in range(repeats):
            translator.translate_batch(
                texts, beam_size=beam, min_decoding_length=output, max_decoding_length=output, max_batch_size=0
            )

    serve({"decode": decode})


main()
