#include "trainer/programs/vocab_main.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cxxopts.hpp>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <unordered_map>

#include "data/draws.h"
#include "data/text/line_reader.h"
#include "data/text/line_splitter.h"
#include "data/text/text_problems.h"
#include "data/vocabulary/subword_sampling.h"
#include "data/vocabulary/train_vocabulary.h"
#include "engine/base/error.h"
#include "engine/base/exception.h"
#include "engine/base/file.h"
#include "engine/base/nearest.h"
#include "engine/base/parse_number.h"
#include "engine/base/printable.h"
#include "engine/base/process.h"
#include "engine/base/seconds_since.h"
#include "engine/config/node.h"
#include "trainer/report/progress.h"

namespace mtf {
namespace {

constexpr std::string_view kHelp =
    R"(mtf-vocab: trains a SentencePiece vocabulary on texts, and shows what a vocabulary does to a text.

usage: mtf-vocab --output FILE.model [--size 32000] [option...] TEXT...
       mtf-vocab --encode VOCABULARY [--pieces] [--alpha A | --dropout P] < text
       mtf-vocab --decode VOCABULARY [--pieces] < tokens

TEXT is a file of UTF-8 text, plain or .gz, a sentence a line; - is standard input.

  mtf-vocab --size 8000 --output ende.model train.en.gz train.de.gz
  echo "Ein Haus." | mtf-vocab --encode ende.model --pieces
  mtf-vocab --encode ende.model < dev.en | mtf-vocab --decode ende.model

  --output FILE         the model; the list of its pieces goes to a file beside it, which ends in .vocab
  --size N              pieces, with padding (id 0), end of sequence (1) and unknown text (2); default 32000
  --model unigram|bpe   how pieces are chosen: by a unigram language model (default) or byte pair encoding
  --coverage SHARE      share of the characters that get pieces of their own, 0.98 to 1; default 0.9995
  --no-byte-fallback    other characters are unknown; otherwise they are spelled in bytes (256 of the pieces)
  --normalization nmt_nfkc|none    characters and blanks are unified (default), or texts kept as they are
  --sentences N         at most so many lines, drawn from all of them, are trained on; default 2000000

  --encode VOCABULARY   reads lines of text, writes lines of ids
  --alpha A             with --encode: draws a segmentation in proportion to P^A, of a unigram model (`sampling` of texts)
  --dropout P           with --encode: leaves each merge out with this probability, of byte pairs
  --seed N              of what is drawn; default 1
  --decode VOCABULARY   reads lines of ids, writes lines of text
  --pieces              writes, or reads, the tokens themselves in the place of their ids
  --max-line-bytes N    a longer line of a text or of standard input is an error; default 67108864 (64 MiB)
  --cased               a WordPiece vocabulary keeps capital letters and accents
  --end TOKEN           of a tokenizer.json: the token that ends a text, which becomes id 1; required
  --begin TOKEN         of a tokenizer.json: the token that a text begins with, which becomes id 0, unless it is --end
  --size N              of a tokenizer.json: ids of the model, where these are more than its tokens
VOCABULARY is a SentencePiece model, a file of tensor2tensor that ends in .subwords, a WordPiece vocabulary that
ends in .txt (BERT's vocab.txt), a tokenizer of Hugging Face that ends in .json (tokenizer.json), or the word `bytes`.

The same texts in the same order give the same vocabulary on every machine. In a configuration:
  data: {vocabulary: {type: sentencepiece, path: ende.model}}

Exit codes: 0 done, 1 failed, 2 wrong usage.
)";

struct Options {
  bool help = false;
  std::string encode, decode;  ///< the vocabulary to encode or decode with; empty: not requested
  bool pieces = false;
  std::optional<SubwordSampling> sampling;  ///< nothing: no segmentation is drawn
  int64_t seed = 1;
  bool cased = false;
  std::optional<std::string> begin;
  std::string end;
  std::optional<int64_t> model_ids;  ///< --size, where it is given
  std::string output;
  SentencePieceTraining vocabulary;
  int64_t sentences = TextSample::default_most;
  TextLimit limit{.setting = "--max-line-bytes"};
  std::vector<std::string> texts;
};

[[noreturn]] void wrong_usage(const std::string& message, const std::string& hint) {
  throw Error(ErrorKind::kUsage, message, hint);
}

double parse_fraction(const cxxopts::ParseResult& parsed, const std::string& name, double least,
                      double most) {
  const std::string text = parsed[name].as<std::string>();
  const std::optional<double> number = config::to_number(text);
  if (!number || !(*number >= least && *number <= most))
    wrong_usage(fmt::format("--{}: `{}` is not a number from {} to {}", name, text, least, most),
                "`mtf-vocab --help` explains");
  return *number;
}

int64_t parse_count(const cxxopts::ParseResult& parsed, const std::string& name, int64_t least) {
  const std::string text = parsed[name].as<std::string>();
  const auto number = parse_number<int64_t>(text);
  if (!number || *number < least || *number > 1'000'000'000)
    wrong_usage(fmt::format("--{}: `{}` is not a whole number from {}", name, text, least),
                fmt::format("write for example `--{} 8000`", name));
  return *number;
}

template <class E>
E parse_word(const cxxopts::ParseResult& parsed, const std::string& name) {
  const std::string text = parsed[name].as<std::string>();
  std::vector<std::string> words;
  for (const config::EnumName& word : enum_names(E{})) {
    if (word.name == text) return static_cast<E>(word.value);
    words.push_back(word.name);
  }
  wrong_usage(fmt::format("--{}: unknown value `{}`", name, text), did_you_mean(text, words));
}

cxxopts::ParseResult parse_words(const std::vector<std::string>& words) {
  cxxopts::Options parser("mtf-vocab");
  const auto text = [](const char* value) { return cxxopts::value<std::string>()->default_value(value); };
  parser.add_options()("h,help", "")("pieces", "")("cased", "")("no-byte-fallback", "");
  parser.add_options()("begin", "", cxxopts::value<std::string>())("end", "", text(""));
  parser.add_options()("encode", "", text(""))("decode", "", text(""))("output", "", text(""));
  parser.add_options()("size", "", text("32000"))("model", "", text("unigram"))("coverage", "",
                                                                                text("0.9995"));
  parser.add_options()("normalization", "", text("nmt_nfkc"))("sentences", "", text("2000000"));
  parser.add_options()("max-line-bytes", "", text("67108864"));
  parser.add_options()("alpha", "", text("1"))("dropout", "", text("0"))("seed", "", text("1"));
  parser.add_options()("texts", "", cxxopts::value<std::vector<std::string>>());
  parser.parse_positional({"texts"});
  std::vector<const char*> arguments{"mtf-vocab"};
  for (const std::string& word : words) arguments.push_back(word.c_str());
  try {
    return parser.parse(static_cast<int>(arguments.size()), arguments.data());
  } catch (const cxxopts::exceptions::exception& error) {
    wrong_usage(error.what(), "`mtf-vocab --help` explains");
  }
}

void check(const Options& options) {
  const int actions = !options.encode.empty() + !options.decode.empty() + !options.output.empty();
  if (actions != 1)
    wrong_usage(actions == 0 ? "nothing to do" : "only one of --output, --encode and --decode",
                "`mtf-vocab --output FILE.model TEXT...`; `mtf-vocab --help` explains");
  if (options.output.empty() && !options.texts.empty())
    wrong_usage(fmt::format("`{}`: the filters read standard input", options.texts[0]),
                fmt::format("`mtf-vocab ... < {}`", options.texts[0]));
  if (!options.output.empty() && options.texts.empty())
    wrong_usage("no text to train on", "`mtf-vocab --output FILE.model TEXT...`; `-` is standard input");
  if (options.output.empty()) return;
  const std::filesystem::path output = options.output;
  if (output.extension() == ".vocab")
    wrong_usage(fmt::format("--output: {} would be the list of pieces", options.output),
                "a name that ends in .model");
  std::error_code ignored;
  if (!output.has_filename() || std::filesystem::is_directory(output, ignored))
    wrong_usage(fmt::format("--output: {} is a directory", options.output), "a name that ends in .model");
  for (const std::string& text : options.texts) {
    for (const std::filesystem::path& written :
         {output, std::filesystem::path(output).replace_extension(".vocab")}) {
      if (std::filesystem::equivalent(written, text, ignored))
        wrong_usage(fmt::format("--output: {} would be written over the text {}", written.string(), text),
                    "a name that ends in .model, before the texts");
    }
  }
}

/// Throws Error for options that have no effect on what is done.
void check_effects(const cxxopts::ParseResult& parsed, const Options& options) {
  std::set<std::string_view> used = {"output", "encode", "decode", "texts", "max-line-bytes"};
  const std::string& vocabulary = options.encode.empty() ? options.decode : options.encode;
  if (!options.output.empty()) {
    used.insert({"size", "model", "coverage", "no-byte-fallback", "normalization", "sentences"});
  } else {
    used.insert("pieces");
    if (!options.encode.empty()) used.insert({"alpha", "dropout"});
    if (options.sampling) used.insert("seed");
    if (vocabulary.ends_with(".txt")) used.insert("cased");
    if (vocabulary.ends_with(".json")) used.insert({"begin", "end", "size"});
  }
  for (const cxxopts::KeyValue& given : parsed.arguments()) {
    if (used.contains(given.key())) continue;
    wrong_usage(fmt::format("--{} has no effect {}", given.key(),
                            options.output.empty() ? "with " + vocabulary
                                                   : std::string("on the training of a vocabulary")),
                "leave it out; `mtf-vocab --help` explains");
  }
}

Options parse(const std::vector<std::string>& words) {
  const cxxopts::ParseResult parsed = parse_words(words);
  Options options;
  options.help = parsed["help"].as<bool>();
  if (options.help) return options;
  options.encode = parsed["encode"].as<std::string>();
  options.decode = parsed["decode"].as<std::string>();
  options.output = parsed["output"].as<std::string>();
  options.pieces = parsed["pieces"].as<bool>();
  options.cased = parsed["cased"].as<bool>();
  if (parsed.count("begin") > 0) options.begin = parsed["begin"].as<std::string>();
  options.end = parsed["end"].as<std::string>();
  options.vocabulary.size = parse_count(parsed, "size", 4);
  if (parsed.count("size") > 0) options.model_ids = options.vocabulary.size;
  options.vocabulary.model = parse_word<SentencePieceModel>(parsed, "model");
  options.vocabulary.normalization = parse_word<TextNormalization>(parsed, "normalization");
  options.vocabulary.character_coverage = parse_fraction(parsed, "coverage", 0.98, 1);
  options.vocabulary.byte_fallback = !parsed["no-byte-fallback"].as<bool>();
  options.sentences = parse_count(parsed, "sentences", 1);
  options.limit.bytes = parse_count(parsed, "max-line-bytes", 1);
  options.seed = parse_count(parsed, "seed", 0);
  if (parsed.count("alpha") > 0 && parsed.count("dropout") > 0)
    wrong_usage("--alpha and --dropout are for different vocabularies", "one of them");
  constexpr double kLeastAlpha = 1e-6, kMostAlpha = 1e6;
  if (parsed.count("alpha") > 0)
    options.sampling = {SegmentationKind::kUnigram, parse_fraction(parsed, "alpha", kLeastAlpha, kMostAlpha)};
  if (parsed.count("dropout") > 0)
    options.sampling = {SegmentationKind::kMerges, parse_fraction(parsed, "dropout", 0, 1)};
  if (parsed.count("texts") > 0) options.texts = parsed["texts"].as<std::vector<std::string>>();
  check(options);
  check_effects(parsed, options);
  return options;
}

TextSample read_texts(const Options& options) {
  TextSample sample(options.sentences);
  TextProblems problems;
  for (const std::string& path : options.texts) {
    LineReader lines(path == "-" ? "/dev/stdin" : path, problems, options.limit);
    while (const std::optional<std::string_view> line = lines.next()) sample.add(*line);
  }
  problems.throw_if_any();
  return sample;
}

void train(const Options& options) {
  // An unwritable directory is reported before the training.
  const std::string directory = directory_of(options.output);
  if (::access(directory.c_str(), W_OK) != 0)
    throw Error(ErrorKind::kSystem,
                fmt::format("{}: cannot be written: {}", options.output, system_message(errno)));
  Progress progress({});
  const auto begin = std::chrono::steady_clock::now();
  const auto seconds = [&] { return seconds_since(begin); };
  const TextSample sample = read_texts(options);
  const auto kept = static_cast<double>(sample.texts().size());
  progress.info(fmt::format("training {} pieces on {} of {} texts, read in {}",
                            with_thousands(static_cast<double>(*options.vocabulary.size)),
                            with_thousands(kept), with_thousands(static_cast<double>(sample.added())),
                            duration_text(seconds())));
  write_vocabulary(train_sentencepiece(sample, options.vocabulary), options.output);
  progress.info(fmt::format("{} is there after {}", options.output, duration_text(seconds())));
}

std::unique_ptr<Vocabulary> open(const std::string& name, const Options& given) {
  if (name == "bytes") return read_vocabulary(BytesOptions{});
  if (name.ends_with(".subwords")) {
    T2tOptions subwords;
    subwords.path.text = name;
    return read_vocabulary(subwords);
  }
  if (name.ends_with(".txt")) {
    WordPieceOptions pieces;
    pieces.path.text = name;
    pieces.lowercase = !given.cased;
    return read_vocabulary(pieces);
  }
  if (name.ends_with(".json")) {
    if (given.end.empty())
      wrong_usage(
          fmt::format("{}: --end is missing", name),
          "the token that ends a text, for example `--end \"</s>\"`, and --begin for the one that begins it");
    HuggingFaceOptions tokenizer;
    tokenizer.path.text = name;
    tokenizer.begin = given.begin;
    tokenizer.end = given.end;
    tokenizer.size = given.model_ids;
    return read_vocabulary(tokenizer);
  }
  SentencePieceOptions options;
  options.path.text = name;
  return read_vocabulary(options);
}

/// Returns a token as one word; the tokens of tensor2tensor contain blanks.
std::string one_word(const std::string& piece) {
  std::string word;
  for (const char character : printable(piece)) {
    if (character == ' ') {
      word += "\u2423";
    } else {
      word += character;
    }
  }
  return word;
}

void write_line(const std::string& line) {
  if (std::fwrite(line.data(), 1, line.size(), stdout) != line.size() || std::fputc('\n', stdout) == EOF)
    check_standard_output();
}

/// Returns the line. Throws Error (kData) when it is no UTF-8.
std::string_view text_of(std::string_view line, int64_t number) {
  TextProblems problems;
  check_utf8(line, "standard input", "line", number, problems);
  problems.throw_if_any();
  return line;
}

/// Calls `convert` with each line of standard input and writes what it returns.
void filter(const TextLimit& limit,
            const std::function<std::string(std::string_view line, int64_t number)>& convert) {
  LineSplitter lines("standard input", read_from(STDIN_FILENO, "standard input"), limit);
  while (const std::optional<std::string_view> line = lines.next()) write_line(convert(*line, lines.line()));
}

/// Says what `vocabulary`, read from `path`, has in place of the segmentations that `wanted` draws.
[[noreturn]] void refuse_sampling(const Vocabulary& vocabulary, const SubwordSampling& wanted,
                                  const std::string& path) {
  const bool unigram = wanted.kind == SegmentationKind::kUnigram;
  const SubwordSampling other{unigram ? SegmentationKind::kMerges : SegmentationKind::kUnigram, 0.5};
  if (vocabulary.sampler(other) != nullptr)
    wrong_usage(fmt::format("--{} is for {}, and {} has {}", unigram ? "alpha" : "dropout",
                            unigram ? "unigram models" : "byte pairs", path,
                            unigram ? "byte pairs" : "a unigram model"),
                unigram ? "--dropout P" : "--alpha A");
  wrong_usage(fmt::format("no segmentations can be drawn from {}", path),
              "a unigram model or byte pairs of SentencePiece, or byte pairs of a tokenizer.json");
}

void encode(const Options& options) {
  const std::unique_ptr<Vocabulary> vocabulary = open(options.encode, options);
  const std::unique_ptr<SubwordSampler> sampler =
      options.sampling ? vocabulary->sampler(*options.sampling) : nullptr;
  if (options.sampling && sampler == nullptr) refuse_sampling(*vocabulary, *options.sampling, options.encode);
  const PhiloxKey key = random_key("mtf-vocab", static_cast<uint64_t>(options.seed));
  filter(options.limit, [&](std::string_view line, int64_t number) {
    std::string tokens;
    Draws draws(key, number, 0);
    const std::string_view text = text_of(line, number);
    for (const int32_t id : sampler ? sampler->encode(text, draws) : vocabulary->encode(text)) {
      if (!tokens.empty()) tokens += ' ';
      tokens += options.pieces ? one_word(vocabulary->piece(id)) : fmt::to_string(id);
    }
    return tokens;
  });
}

void decode(const Options& options) {
  const std::unique_ptr<Vocabulary> vocabulary = open(options.decode, options);
  std::unordered_map<std::string, int32_t> ids;
  for (int32_t id = 0; id < vocabulary->size(); ++id)
    ids.emplace(options.pieces ? one_word(vocabulary->piece(id)) : fmt::to_string(id), id);
  filter(options.limit, [&](std::string_view line, int64_t number) {
    std::vector<int32_t> tokens;
    std::istringstream words{std::string(line)};
    for (std::string word; words >> word;) {
      const auto found = ids.find(word);
      if (found == ids.end())
        throw Error(ErrorKind::kData,
                    fmt::format("line {} of standard input: the vocabulary has no token `{}`", number,
                                printable(word)),
                    options.pieces ? "the pieces of `mtf-vocab --encode --pieces`"
                                   : fmt::format("ids from 0 to {}", vocabulary->size() - 1));
      tokens.push_back(found->second);
    }
    return vocabulary->decode(tokens);
  });
}

void run(const Options& options) {
  if (options.help) {
    std::fputs(kHelp.data(), stdout);
  } else if (!options.encode.empty()) {
    encode(options);
  } else if (!options.decode.empty()) {
    decode(options);
  } else {
    train(options);
  }
}

}  // namespace

int vocab_main(const std::vector<std::string>& words) {
  prepare_process();
  try {
    run(parse(words));
    check_standard_output();
    return 0;
  } catch (const std::exception& error) {
    return report_failure(error, "mtf-vocab");
  }
}

}  // namespace mtf
