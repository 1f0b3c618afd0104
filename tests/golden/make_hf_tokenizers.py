"""Makes small tokenisers of the kinds that language models of Hugging Face have, and what the library `tokenizers` does.

make_hf_tokenizers.py DIRECTORY [TEXT SIZE]: trains on TEXT (otherwise on the texts below), a sentence a line. Writes for
each kind NAME.json, the tokeniser, and, without TEXT, NAME.ids.json: for each text of texts.json its ids, and the text that
these give.
"""

import base64
import json
import pathlib
import sys

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

TRAINING = """\
The quick brown fox jumps over the lazy dog, and the dog doesn't mind: it's what they've always done.
In 2023 there were 1,234,567 foxes in the world; 42 of them jumped over 7 dogs in 365 days.
Der schnelle braune Fuchs springt über den faulen Hund, und größere Füchse überspringen größere Hunde.
Die Übersetzung der Wörter „Straße“ und „Fußgängerübergang“ hängt davon ab, was gemeint war.
Le renard brun saute par-dessus le chien paresseux ; l'été dernier, il a été vu à l'hôtel.
def encode(self, text):\n    for word in text.split():\n        yield self.merge(word)\n
Быстрая лиса прыгает через ленивую собаку. Она прыгает снова и снова.
素早い茶色の狐がのろまな犬を飛び越えた。狐は犬を見て、犬は狐を見た。
敏捷的棕色狐狸跳过了懒狗。狗看着狐狸。
I'll say that we'd better not; they're sure that I'm right. THEY'RE SURE, AND IT'S RIGHT.
What the model learns from the text is what follows the words that it has read, over and over again.
"""

TEXTS = [
    "", " ", "  ", "a", " a", "a ", "The quick brown fox jumps over it, over and over",
    "  two  blanks   and more    ", "tabs\tand\t\ttabs", "one\ntwo\r\nthree\n\n\nfour", "   \n  \n x",
    "don't DON'T it's IT'S they'VE we'Ll I'm 'tis 'S ſ 'ſ", "x=1234567890; y=12.345,67", "½ ² ③ Ⅷ ٣٤٥ ๑๒ 1²3",
    "größere Füchse über Straßen", "gro\u0308ßere Fu\u0308chse",
    "\u1e69 s\u0323\u0307 \u212b \ufb01 \uac00 \u1100\u1161", "Быстрая лиса", "素早い茶色の狐。123狐", "مرحبا بالعالم",
    "שלום עולם", "สวัสดี", "🦊🐕 👩\u200d👩\u200d👧\u200d👦 🏳️\u200d🌈 e\u0301",
    "a\u00a0b\u2003c\u3000d\u2028e\u2029f\u0085g\u200bh\ufeffi",
    "\u0000\u0001\u0007\u001b[0m\u007f\u0080\u009f\u00ad", "\ufffd \ufffe \U0010ffff \ue000 \U000f0000",
    "<|endoftext|>", "a<|endoftext|>b <|endoftext|> c", "<|endoftext|><|endoftext|>", "<|endof text|>", "<s>text</s>",
    " <s> text </s> ", "<unk> <0x41> <0xE4>", "[INST] Hi [/INST] there", "x[INST]y",
    "  <left>  <right>  <word> <word>s a<word> <norm> <norm>al", "Ġthe Ċ \u2581the \u2581\u2581 x\u2581y",
    "word" * 40, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "=" * 33 + "-" * 17, "¡¿§«»…—–‘’“”„",
    "http://example.org/a?b=c&d=%20#e", "def f(x):\n    return x  # comment\n\n\tif x:\n\t\tpass\n",
    "\U00020000\U0002a6d6 \U0001d400\U0001d7d8", "ǅ ǈ İ ı ß ẞ ﬆ K Ω", "e\u0301\u0302\u0303 \u0301", "नमस्ते দুনিয়া",
    "x\u200dy\u200cz", "zero\u200b \u200bwidth", "\r\r\n\n\r", " \n", "\n ", "\t ", "3 3 33 333 3333 a3b4",
]

GPT4_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def byte_level(**options):
    return pre_tokenizers.ByteLevel(add_prefix_space=False, **options)


def split(numbers):
    pattern = Regex(GPT4_WORDS % numbers)
    return pre_tokenizers.Sequence([pre_tokenizers.Split(pattern, "isolated"), byte_level(use_regex=False)])


def train_byte_level(texts, size, special, normalizer, pre_tokenizer, **options):
    tokenizer = Tokenizer(models.BPE(**options))
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, show_progress=False))
    tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in special])
    return tokenizer


def train_sentencepiece(texts, size, normalizer, pre_tokenizer):
    """Trained word by word; the tokeniser encodes whole texts, as those that were converted from SentencePiece do."""
    special = ["<unk>", "<s>", "</s>"]
    byte_tokens = ["<0x%02X>" % byte for byte in range(256)]
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=special + byte_tokens, show_progress=False)
    latin = [text for text in texts if text == "" or max(text) < "\u0250"]  # other characters are spelled in bytes
    tokenizer.train_from_iterator(latin, trainer)
    content = json.loads(tokenizer.to_str())
    content["added_tokens"] = content["added_tokens"][:3]
    tokenizer = Tokenizer.from_str(json.dumps(content))
    tokenizer.pre_tokenizer = pre_tokenizer
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    return tokenizer


def train_unigram(texts, size, byte_tokens, normalizer, pre_tokenizer):
    """A unigram model of pieces that begin with a blank; the normaliser of SentencePiece is that of hf_xlm_roberta."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<s>", "</s>", "<unk>"] + (["<0x%02X>" % byte for byte in range(256)] if byte_tokens else [])
    latin = [text for text in texts if text == "" or max(text) < "\u0250"]  # other characters are unknown
    tokenizer.train_from_iterator(latin, trainers.UnigramTrainer(
        vocab_size=size, unk_token="<unk>", special_tokens=special, show_progress=False))
    content = json.loads(tokenizer.to_str())
    content["added_tokens"] = content["added_tokens"][:3]
    content["model"]["byte_fallback"] = byte_tokens
    tokenizer = Tokenizer.from_str(json.dumps(content))
    tokenizer.normalizer, tokenizer.pre_tokenizer, tokenizer.decoder = normalizer, pre_tokenizer, decoders.Metaspace()
    if byte_tokens:
        tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    return tokenizer


def characters_of_sentencepiece():
    path = pathlib.Path(__file__).parent / "hf_xlm_roberta" / "tokenizer.json"
    content = json.loads(path.read_text(encoding="utf-8"))["normalizer"]["precompiled_charsmap"]
    return normalizers.Precompiled(base64.b64decode(content))


def make(texts, size):
    with_signs = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    made = {
        "gpt2": train_byte_level(texts, size, ["<|endoftext|>"], None, byte_level()),
        "llama3": train_byte_level(texts, size, ["<s>", "</s>"], None, split("{1,3}"), ignore_merges=True),
        "qwen2": train_byte_level(texts, size, ["<|endoftext|>"], normalizers.NFC(), split("")),
        "smollm": train_byte_level(texts, size, ["<|endoftext|>"], None,
                                   pre_tokenizers.Sequence([pre_tokenizers.Digits(True), byte_level()])),
        "llama2": train_sentencepiece(texts, size, with_signs, None),
        "mistral": train_sentencepiece(texts, size, None, pre_tokenizers.Metaspace(prepend_scheme="first", split=False)),
    }
    words = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    made["xlm_roberta"] = train_unigram(texts, size - 256, False, characters_of_sentencepiece(), words)
    one_blank = [characters_of_sentencepiece(), normalizers.Strip(left=False), normalizers.Replace(Regex(" {2,}"), "▁")]
    made["unigram"] = train_unigram(texts, size, True, normalizers.Sequence(one_blank),
                                    pre_tokenizers.Metaspace(prepend_scheme="first", split=False))
    for name in ("qwen2", "llama2"):
        made[name].add_tokens([
            AddedToken("<left>", lstrip=True, normalized=False), AddedToken("<right>", rstrip=True, normalized=False),
            AddedToken("<word>", single_word=True, normalized=False), AddedToken("<norm>", normalized=True)])
    made["mistral"].add_special_tokens(["[INST]", "[/INST]"])
    # A word is a token although no merge makes it, as in the original.
    content = json.loads(made["llama3"].to_str())
    content["model"]["merges"] = [pair for pair in content["model"]["merges"] if "".join(pair) != "Ġover"]
    made["llama3"] = Tokenizer.from_str(json.dumps(content))
    return made


def write(path, content):
    path.write_text(json.dumps(content, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")


def main():
    directory = pathlib.Path(sys.argv[1])
    own = len(sys.argv) == 2
    texts = TRAINING.split("\n") if own else open(sys.argv[2], encoding="utf-8").read().split("\n")
    for name, tokenizer in make(texts, 480 if own else int(sys.argv[3])).items():
        content = json.loads(tokenizer.to_str())
        if name in ("gpt2", "llama2"):  # as older versions wrote them
            content["model"]["merges"] = [" ".join(pair) for pair in content["model"]["merges"]]
            del content["model"]["ignore_merges"]
        write(directory / (name + ".json"), content)
        if own:
            encoded = [tokenizer.encode(text, add_special_tokens=False).ids for text in TEXTS]
            results = [[ids, tokenizer.decode(ids, skip_special_tokens=False)] for ids in encoded]
            write(directory / (name + ".ids.json"), results)
    if own:
        write(directory / "texts.json", TEXTS)


if __name__ == "__main__":
    main()
