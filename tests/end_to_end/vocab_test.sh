#!/usr/bin/env bash
# Tests mtf-vocab: training on plain and compressed files and standard input, encoding and decoding, agreement
# with Python's sentencepiece, and errors.
source "$2/tests/end_to_end/common.sh"
use_python
"$python" -c "import sentencepiece" 2> /dev/null || fail "build/python lacks the packages of tests/requirements.txt"
mtf_vocab=$(dirname "$mtf_train")/mtf-vocab

# The texts are prose with code, numbers and names: the documentation of this repository.
cat "$source_dir/README.md" "$source_dir"/docs/*.md "$source_dir"/trainer/*/*.h > english.txt
cat "$source_dir"/engine/core/*.h > core.txt
gzip -k core.txt
expect_exit 0 "$mtf_vocab" --size 1500 --output one.model english.txt core.txt
expect_text "training 1,500 pieces on"
[ "$(wc -l < one.vocab)" = 1500 ] || fail "one.vocab does not list 1500 pieces"
[ "$(head -n 3 one.vocab | cut -f 1 | tr '\n' ' ')" = "<pad> </s> <unk> " ] || fail "the first three pieces are others"

# The same texts give the same bytes, whatever their source and the number of processors.
expect_exit 0 taskset -c 0 "$mtf_vocab" --size 1500 --output two.model english.txt core.txt.gz
cmp one.model two.model || fail "compressed text or one processor gives another model"
cat english.txt core.txt | "$mtf_vocab" --size 1500 --output three.model - 2> out || { cat out; fail "standard input"; }
cmp one.model three.model || fail "standard input gives another model"

# Tokens are those of Python's package, and decoding restores the texts.
expect_exit 0 "$mtf_vocab" --size 1500 --model bpe --normalization none --output bpe.model english.txt
expect_exit 2 "$mtf_vocab" --encode one.model --dropout 0.1 < english.txt
expect_text "--dropout is for byte pairs, and one.model has a unigram model; --alpha A"
expect_exit 2 "$mtf_vocab" --encode bytes --alpha 0.1 < english.txt
expect_text "no segmentations can be drawn from bytes"
for model in one bpe; do
  "$mtf_vocab" --encode $model.model < english.txt > ids
  "$mtf_vocab" --encode $model.model --pieces < english.txt > pieces
  "$python" - $model.model << 'END' || fail "$model: other tokens than Python's"
import sys, sentencepiece
model = sentencepiece.SentencePieceProcessor(model_file=sys.argv[1])
def lines(name): return [line.rstrip("\n") for line in open(name, newline="\n")]
def score(ids): return sum(model.get_score(i) for i in ids)
for text, ids, pieces in zip(lines("english.txt"), lines("ids"), lines("pieces"), strict=True):
    ids = [int(i) for i in ids.split()]
    if " ".join(model.id_to_piece(ids)) != pieces:
        sys.exit(f"pieces and ids differ: {text}")
    expected = model.encode(text)
    # Versions of the package choose different ones of equally likely segmentations.
    if ids != expected and abs(score(ids) - score(expected)) > 1e-3:
        sys.exit(f"{text}: {ids}, not {expected}")
END
  "$mtf_vocab" --decode $model.model < ids > text
  "$mtf_vocab" --decode $model.model --pieces < pieces | cmp - text || fail "$model: pieces and ids give two texts"
done
cmp text english.txt || fail "a text does not come back without normalisation"

# The other types of vocabulary.
printf 'Größe\n' | "$mtf_vocab" --encode bytes > out && expect_text "74 117 198 185 198 162 104"
printf '74 117 198 185 198 162 104\n' | "$mtf_vocab" --decode bytes > out && expect_text "Größe"
printf "'%s'\n" '<pad>' '<EOS>' '\' _ u ';' 0 1 2 3 4 5 6 7 8 9 ein_ Haus_ ' , _' > t2t.subwords
printf 'ein Haus , ein ö\n' | "$mtf_vocab" --encode t2t.subwords --pieces > out
expect_text 'ein_ Haus_ ␣,␣_ ein_ \ 2 4 6 ; _'
"$mtf_vocab" --decode t2t.subwords --pieces < out | cmp - <(echo 'ein Haus , ein ö') || fail "tensor2tensor's subwords"

tokenizer=$source_dir/tests/golden/hf_tokenizers/llama2.json
printf 'größe  <s>fox 狐\n' | "$mtf_vocab" --encode "$tokenizer" --begin '<s>' --end '</s>' > ids
"$mtf_vocab" --decode "$tokenizer" --begin '<s>' --end '</s>' < ids | cmp - <(echo 'größe   fox 狐') || fail "a tokenizer.json"
"$mtf_vocab" --encode "$tokenizer" > out 2>&1 < ids && fail "a tokenizer.json without --end is read"
expect_text "--end is missing"

# Lines are read as in training data: without "\r" at the end of a line and without byte order mark.
printf '\xef\xbb\xbfGut\r\nso\r\n' | "$mtf_vocab" --encode bytes | cmp - <(printf '74 120 119\n118 114\n') ||
  fail "lines of Windows"
printf 'gut\ngr\xfc\xdfe\n' > latin.txt
"$mtf_vocab" --encode bytes < latin.txt > out 2>&1 && fail "text that is no UTF-8 is encoded"
expect_text "standard input: line 2: no UTF-8: byte \xfc after 2 characters"

"$mtf_vocab" --encode bytes --max-line-bytes 5 <<< $'12345\n123456' > out 2>&1 && fail "a line above the limit is encoded"
expect_text "standard input: line 2: longer than 5 bytes; a file of shorter texts, or a greater \`--max-line-bytes\`"

# Errors print one line.
expect_mistake() {  # CODE TEXT ARGUMENT...
  local code=$1 text=$2
  shift 2
  expect_exit "$code" "$mtf_vocab" "$@" < /dev/null
  grep -v '^training ' out > message || true
  [ "$(wc -l < message)" = 1 ] || { cat out >&2; fail "the mistake is not said in one line: mtf-vocab $*"; }
  expect_text "$text"
}
expect_exit 0 "$mtf_vocab" --help
expect_text "usage: mtf-vocab --output FILE.model"
[ "$(wc -l < out)" -le 45 ] || fail "--help is longer than a screen"
expect_mistake 2 "nothing to do"
expect_mistake 2 "no text to train on" --output x.model
expect_mistake 2 "--size: \`many\` is not a whole number" --output x.model --size many english.txt
expect_mistake 2 "--coverage has no effect with one.model" --encode one.model --coverage 0.99
expect_mistake 2 "--cased has no effect on the training of a vocabulary" --output x.model --cased english.txt
expect_mistake 2 "did you mean \`bpe\`?" --output x.model --model bpee english.txt
expect_mistake 2 "is not a number from 0.98 to 1" --output x.model --coverage 2 english.txt
expect_mistake 2 "x.vocab would be the list of pieces" --output x.vocab english.txt
cp english.txt kept.txt
expect_mistake 2 "kept.txt would be written over the text kept.txt" --output kept.txt english.txt kept.txt
cp english.txt kept.vocab
expect_mistake 2 "kept.vocab would be written over the text kept.vocab" --output kept.model kept.vocab
cmp english.txt kept.txt && cmp english.txt kept.vocab || fail "a text was written over"
expect_mistake 2 "--output: . is a directory" --output . english.txt
expect_mistake 2 "--output: absent/ is a directory" --output absent/ english.txt
expect_mistake 2 "the filters read standard input" --encode one.model english.txt
expect_mistake 2 "only one of --output, --encode and --decode" --encode one.model --decode one.model
expect_mistake 1 "cannot read absent.txt" --output x.model absent.txt
expect_mistake 1 "absent/x.model: cannot be written" --output absent/x.model english.txt
expect_mistake 2 "at most " --size 50000 --output x.model english.txt
expect_mistake 2 "at least " --size 100 --output x.model english.txt
expect_mistake 1 "there is no text" --output x.model -
expect_mistake 1 "no WordPiece vocabulary" --encode english.txt
cp english.txt english.model
expect_mistake 1 "no SentencePiece model" --encode english.model
expect_mistake 2 "did you mean \`one.model\`?" --encode on.model
printf 'gut\n\xff\n' > latin.txt
expect_mistake 1 "latin.txt" --output x.model latin.txt
expect_text "UTF-8"
[ ! -e x.model ] || fail "a failed training leaves a model"
printf '5 7\n5 x\n' > wrong
"$mtf_vocab" --decode one.model < wrong > out 2>&1 && fail "an id that is none is accepted"
expect_text "line 2 of standard input: the vocabulary has no token \`x\`; ids from 0 to 1499"
"$mtf_vocab" --encode one.model < english.txt > /dev/full 2> out && fail "a full disk is not noticed"
expect_text "cannot write standard output: No space left on device"
