#include "trainer/programs/convert/bart_vocabulary.h"

#include <fmt/format.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <sstream>

#include "data/vocabulary/marian_tokens.h"
#include "data/vocabulary/vocabulary.h"
#include "data/vocabulary/vocabulary_options.h"
#include "engine/base/error.h"
#include "trainer/programs/convert/config_text.h"
#include "trainer/programs/convert/files.h"
#include "trainer/programs/convert/tokenizer_files.h"
#include "trainer/programs/convert/tokenizer_ids.h"

namespace mtf {
namespace {

namespace fs = std::filesystem;

constexpr const char *kSource = "source.spm", *kTarget = "target.spm", *kIds = "vocab.json",
                     *kTargetIds = "target_vocab.json", *kSentencePieces = "sentencepiece.bpe.model";

/// The languages of M2M100Tokenizer in the order of their ids, which stand behind those of vocab.json (transformers,
/// tokenization_m2m_100.py).
constexpr const char
    *kM2m100Languages =
        "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha "
        "he hi hr ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne "
        "nl no ns oc or pa pl ps pt ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo "
        "xh yi yo zh zu",
    *kWmt21Languages = "en ha is ja cs ru zh de";

/// The token of a language in an M2M100.
std::string m2m100_token(const std::string& language) { return fmt::format("__{}__", language); }

std::vector<std::string> m2m100_tokens(const HuggingFaceJson& tokenizer) {
  const std::string codes = tokenizer.text("language_codes", "m2m100");
  if (codes != "m2m100" && codes != "wmt21")
    tokenizer.fail(fmt::format("`language_codes` is {}", codes), "m2m100 or wmt21");
  std::istringstream languages(codes == "m2m100" ? kM2m100Languages : kWmt21Languages);
  std::vector<std::string> tokens;
  for (std::string language; languages >> language;) tokens.push_back(m2m100_token(language));
  return tokens;
}

/// Throws Error (kCheckpoint) unless the ids of a tokeniser are those of config.json.
void check_ids(const std::string& file, const std::string& padding_name, int32_t padding,
               const std::string& end_name, int32_t end, const BartConfig& bart) {
  if (padding == bart.padding && end == bart.end) return;
  throw Error(ErrorKind::kCheckpoint,
              fmt::format("{}: `{}` is {} and `{}` {}, and config.json says {} and {}", file, padding_name,
                          padding, end_name, end, bart.padding, bart.end),
              "config.json and this file are not of one model");
}

/// Returns what the ids of one side are. Those of the targets must be the ones of config.json.
FileIds marian_ids(const std::string& file, const std::vector<std::string>& added, int64_t rows,
                   bool is_decoded, const BartConfig& bart) {
  if (!fs::exists(file)) return {.size = rows, .begin = bart.padding, .end = bart.end};
  const MarianTokens tokens = read_marian_tokens(file, added);
  if (tokens.size() > rows)
    throw Error(ErrorKind::kCheckpoint,
                fmt::format("{} has {} tokens, and the embedding only {} rows", file, tokens.size(), rows));
  const FileIds ids = tokens.file_ids(rows);
  if (is_decoded) check_ids(file, "<pad>", *ids.begin, "</s>", ids.end, bart);
  return ids;
}

void add_tokenizer_config(const std::string& from, const ImportTarget& target, HuggingFaceImport& import) {
  const std::string tokenizer = from + "/" + kTokenizerConfig;
  if (!target.is_file && fs::exists(tokenizer))
    import.files.emplace_back(kTokenizerConfig, read_text_file(tokenizer));
}

std::string settle_marian(const std::string& from, const ImportTarget& target, const BartConfig& bart,
                          BartIds& ids, HuggingFaceImport& import) {
  const bool are_apart = tokenizer_config_of(from).flag("separate_vocabs", false);
  const auto path = [&](const char* name) { return quoted(vocabulary_path(from, name, target, import)); };
  const std::string of_inputs = path(kIds), of_targets = are_apart ? path(kTargetIds) : of_inputs;
  const auto file_ids = [&](const char* name, int64_t rows, bool is_decoded) {
    return file_ids_of(marian_ids(from + "/" + name, {}, rows, is_decoded, bart));
  };
  ids.inputs = file_ids(kIds, bart.vocab_size, bart.shared_embedding);
  ids.targets = file_ids(are_apart ? kTargetIds : kIds, bart.decoder_vocab_size, true);
  add_tokenizer_config(from, target, import);
  const auto side = [](const std::string& model, const std::string& json, int64_t size) {
    return fmt::format("{{type: marian, path: {}, ids: {}, size: {}}}", model, json, size);
  };
  return fmt::format("{{inputs: {},\n               targets: {}}}",
                     side(path(kSource), of_inputs, bart.vocab_size),
                     side(path(kTarget), of_targets, bart.decoder_vocab_size));
}

/// The token of an id, and the id of a token.
struct TokenNames {
  std::function<std::optional<std::string>(int32_t)> token;
  std::function<std::optional<int32_t>(const std::string&)> id;
};

/// Settles the token that stands before the texts of each side: that of all texts in a BART, a language in the others.
BySide<std::optional<std::string>> settle_first_tokens(const TokenNames& names,
                                                       const HuggingFaceJson& tokenizer, BartConfig& bart,
                                                       HuggingFaceImport& import) {
  const auto token = [&](int32_t id) { return names.token(id).value_or(fmt::format("id {}", id)); };
  BySide<std::optional<std::string>> first;
  if (bart.kind == BartKind::kBart) {
    first.inputs = token(*bart.begin);
    if (bart.forced_begin) {
      first.targets = token(*bart.forced_begin);
    } else {
      import.notes.push_back(
          fmt::format("there is no `forced_bos_token_id`: the model writes what texts begin with; targets of "
                      "training begin with {} only with `data.vocabulary.targets.first_token`",
                      token(*bart.begin)));
    }
    return first;
  }
  const auto language = [&](const char* key) -> std::optional<std::string> {
    if (!tokenizer.has(key)) return std::nullopt;
    const std::string name = tokenizer.text(key, "");
    for (const std::string& wanted : {name, m2m100_token(name)}) {
      if (names.id(wanted)) return wanted;
    }
    tokenizer.fail(fmt::format("`{}` is {}, which is no token", key, name), "the token of a language");
  };
  first.inputs = language("src_lang");
  if (bart.forced_begin) {
    first.targets = token(*bart.forced_begin);
    if (names.token(bart.end) && !names.token(*bart.forced_begin))
      tokenizer.fail(fmt::format("`forced_bos_token_id` is {}, the id of no token", *bart.forced_begin),
                     "the id of a language");
  } else if (first.targets = language("tgt_lang"); first.targets) {
    bart.forced_begin = names.id(*first.targets);
  }
  if (!first.inputs || !first.targets)
    import.notes.emplace_back(
        "`first_token` of `data.vocabulary.inputs` and `data.vocabulary.targets` is to say the languages, "
        "unless the "
        "texts begin with them");
  return first;
}

/// The value of `data.vocabulary`: twice what `side` is, with the first token of each.
std::string with_first_tokens(const std::string& side, const BySide<std::optional<std::string>>& first) {
  const auto text = [&](const std::optional<std::string>& token) {
    return fmt::format("{{{}, first_token: {}}}", side, token ? quoted(*token) : "null");
  };
  return fmt::format("{{inputs: {},\n               targets: {}}}", text(first.inputs), text(first.targets));
}

/// The vocabulary of an M2M100: SentencePiece, with the ids of vocab.json and the languages behind them.
std::string settle_m2m100(const std::string& from, const ImportTarget& target, BartConfig& bart, BartIds& ids,
                          HuggingFaceImport& import) {
  const HuggingFaceJson tokenizer = tokenizer_config_of(from);
  const std::vector<std::string> languages = m2m100_tokens(tokenizer);
  const std::string file = from + "/" + kIds;
  ids.inputs = ids.targets = file_ids_of(marian_ids(file, languages, bart.vocab_size, true, bart));
  const MarianTokens tokens = read_marian_tokens(file, languages);
  const TokenNames names{[&](int32_t id) -> std::optional<std::string> {
                           return tokens.token(id).empty() ? std::nullopt : std::optional(tokens.token(id));
                         },
                         [&](const std::string& token) { return tokens.id(token); }};
  const auto first = settle_first_tokens(names, tokenizer, bart, import);
  add_tokenizer_config(from, target, import);
  const std::string pieces = quoted(vocabulary_path(from, kSentencePieces, target, import)),
                    json = quoted(vocabulary_path(from, kIds, target, import));
  return with_first_tokens(fmt::format("type: marian, path: {}, ids: {}, size: {}, added_tokens: [{}]",
                                       pieces, json, bart.vocab_size, fmt::join(languages, ", ")),
                           first);
}

/// The vocabulary of a tokenizer.json.
std::string settle_hugging_face(const std::string& from, const ImportTarget& target, BartConfig& bart,
                                BartIds& ids, HuggingFaceImport& import) {
  const std::optional<TokenizerIds> tokens = tokenizer_ids_of(from, bart.vocab_size, import);
  const TokenNames names{[&](int32_t id) { return tokens ? tokens->token(id) : std::nullopt; },
                         [&](const std::string& token) { return tokens ? tokens->id(token) : std::nullopt; }};
  const auto token = [&](int32_t id) { return names.token(id).value_or(fmt::format("id {}", id)); };
  if (tokens && (!names.token(bart.padding) || !names.token(bart.end)))
    throw Error(
        ErrorKind::kCheckpoint,
        fmt::format("{}/{} has no tokens with the ids {} and {}", from, kTokenizer, bart.padding, bart.end),
        "config.json and this file are not of one model");
  ids.inputs = ids.targets = file_ids_of({.size = bart.vocab_size, .begin = bart.padding, .end = bart.end});
  const HuggingFaceJson tokenizer = tokens ? tokenizer_config_of(from) : HuggingFaceJson("{}", from);
  const auto first = settle_first_tokens(names, tokenizer, bart, import);
  const std::string path = quoted(add_tokenizer_files(from, target, import));
  return with_first_tokens(fmt::format("type: hugging_face, path: {}, begin: {}, end: {}, size: {}", path,
                                       quoted(token(bart.padding)), quoted(token(bart.end)), bart.vocab_size),
                           first);
}

/// What the ids of a run's side are in its file, and what its first token is there.
struct ExportedSide {
  FileIds ids;
  std::optional<int32_t> begin = {}, first_token = {};
};

/// Nothing: it has no such vocabulary. Throws Error (kConfig) at `mark`.
std::optional<ExportedSide> exported_side(const LanguageVocabulary& language, const Mark& mark) {
  const auto side = [&](const FileIds& ids, const auto& names, const std::optional<std::string>& first) {
    ExportedSide exported{.ids = ids, .begin = names.id("<s>")};
    if (!first) return exported;
    exported.first_token = names.id(*first);
    if (!exported.first_token)
      throw Error(ErrorKind::kConfig, mark, fmt::format("`first_token` is {}, no token", *first),
                  "a token of the vocabulary");
    return exported;
  };
  if (const auto* vocabulary = language.get_if<HuggingFaceOptions>()) {
    const FileIds ids = file_ids_in(*vocabulary, mark);
    if (!ids.begin)
      throw Error(ErrorKind::kConfig, mark, "the vocabulary has no token for padding",
                  "`begin`, such as \"<pad>\"");
    return side(ids, TokenizerIds(vocabulary->path.text), vocabulary->first_token);
  }
  const auto* vocabulary = language.get_if<MarianOptions>();
  if (!vocabulary) return std::nullopt;
  if (!fs::exists(vocabulary->ids.text))
    throw Error(ErrorKind::kConfig, mark,
                fmt::format("there is no {}, which says what ids the model has in Hugging Face form",
                            vocabulary->ids.text),
                "the vocab.json of the model, as `ids` of `data.vocabulary`");
  const MarianTokens tokens = read_marian_tokens(vocabulary->ids.text, vocabulary->added_tokens);
  ExportedSide exported = side(tokens.file_ids(vocabulary->size), tokens, vocabulary->first_token);
  if (vocabulary->added_tokens.empty()) exported.begin.reset();
  return exported;
}

/// Throws Error (kConfig) at `mark` for two sides that no model of Hugging Face has together.
void check_sides(const BySide<LanguageVocabulary>& languages, const Mark& mark) {
  const auto *inputs = languages.inputs.get_if<HuggingFaceOptions>(),
             *targets = languages.targets.get_if<HuggingFaceOptions>();
  const bool has_marian =
      languages.inputs.get_if<MarianOptions>() || languages.targets.get_if<MarianOptions>();
  if ((inputs || targets) && has_marian)
    throw Error(ErrorKind::kConfig, mark, "inputs and targets have vocabularies of two types",
                "`type: hugging_face` for both, or `type: marian`");
  if (inputs && targets && inputs->path.text != targets->path.text)
    throw Error(
        ErrorKind::kConfig, mark,
        fmt::format("inputs have the tokeniser {}, and targets {}; a model in Hugging Face form has one",
                    inputs->path.text, targets->path.text),
        "the same `path` for both");
}

void copy_file(const std::string& file, const std::string& directory, const char* name,
               std::vector<std::string>& notes) {
  if (fs::exists(file)) return write_text_file(directory + "/" + name, read_text_file(file));
  notes.push_back(fmt::format("without {}: there is no {}", name, file));
}

/// Writes the files of a tokeniser with a SentencePiece model for each side, or one for both.
void copy_marian(const MarianOptions& inputs, const MarianOptions& targets, const std::string& directory,
                 std::vector<std::string>& notes) {
  const bool is_m2m100 = !targets.added_tokens.empty(), are_apart = inputs.ids.text != targets.ids.text;
  copy_file(inputs.path.text, directory, is_m2m100 ? kSentencePieces : kSource, notes);
  if (!is_m2m100) copy_file(targets.path.text, directory, kTarget, notes);
  copy_file(inputs.ids.text, directory, kIds, notes);
  if (are_apart) copy_file(targets.ids.text, directory, kTargetIds, notes);
  const fs::path tokenizer = fs::path(inputs.ids.text).parent_path() / kTokenizerConfig;
  if (fs::exists(tokenizer)) return copy_file(tokenizer.string(), directory, kTokenizerConfig, notes);
  nlohmann::ordered_json json = {{"tokenizer_class", is_m2m100 ? "M2M100Tokenizer" : "MarianTokenizer"}};
  if (!is_m2m100) json["separate_vocabs"] = are_apart;
  write_text_file(directory + "/" + kTokenizerConfig, json.dump(2) + "\n");
}

}  // namespace

std::string settle_bart_vocabulary(const std::string& from, const ImportTarget& target, BartConfig& bart,
                                   BartIds& ids, HuggingFaceImport& import) {
  if (bart.kind == BartKind::kMarian) return settle_marian(from, target, bart, ids, import);
  const auto has = [&](const char* name) { return fs::exists(from + "/" + name); };
  const auto is_m2m100 = [&] {
    return has(kIds) || tokenizer_config_of(from).text("tokenizer_class", "") == "M2M100Tokenizer";
  };
  if (bart.kind == BartKind::kM2m100 && !has(kTokenizer) && is_m2m100()) {
    for (const char* name : {kSentencePieces, kIds}) {
      if (!has(name))
        throw Error(ErrorKind::kCheckpoint, fmt::format("there is no {}/{}", from, name),
                    fmt::format("the tokeniser of an M2M100 is {} and {}", kSentencePieces, kIds));
    }
    return settle_m2m100(from, target, bart, ids, import);
  }
  return settle_hugging_face(from, target, bart, ids, import);
}

std::string vocabulary_of_sizes(int64_t inputs, int64_t targets) {
  const auto side = [](int64_t size) {
    return fmt::format("{{type: marian, path: {}, ids: {}, size: {}}}", kSource, kIds, size);
  };
  return fmt::format("{{inputs: {}, targets: {}}}", side(inputs), side(targets));
}

BartIds export_bart_vocabulary(const Config& config, const std::string& directory, BartConfig& bart,
                               std::vector<std::string>& notes) {
  const auto own = [](int64_t rows) {
    return ExportedSide{.ids = {.size = rows, .begin = kPadId, .end = kEosId}};
  };
  ExportedSide inputs = own(bart.vocab_size), targets = own(bart.decoder_vocab_size);
  const Mark mark = config.mark("data.vocabulary");
  std::optional<ExportedSide> of_inputs, of_targets;
  if (config.data.vocabulary) {
    const BySide<LanguageVocabulary> languages = by_side(*config.data.vocabulary);
    check_sides(languages, mark);
    of_inputs = exported_side(languages.inputs, mark);
    of_targets = exported_side(languages.targets, mark);
    const auto *marian_inputs = languages.inputs.get_if<MarianOptions>(),
               *marian_targets = languages.targets.get_if<MarianOptions>();
    if (marian_inputs && marian_targets) {
      copy_marian(*marian_inputs, *marian_targets, directory, notes);
    } else if (of_inputs && of_targets) {
      copy_tokenizer(*languages.targets.get_if<HuggingFaceOptions>(), directory);
    }
  }
  if (of_inputs && of_targets) {
    inputs = *of_inputs;
    targets = *of_targets;
  } else {
    notes.emplace_back(
        "without files of the vocabulary: it is none of these models'; texts begin with id 0 and end with id "
        "1");
  }
  const auto file_ids = [](const FileIds& ids, int64_t rows) {
    if (ids.size > rows)
      throw Error(ErrorKind::kCheckpoint,
                  fmt::format("the vocabulary has {} ids, and the embedding {} rows", ids.size, rows));
    return file_ids_of({.size = rows, .begin = ids.begin, .end = ids.end});
  };
  bart.padding = *targets.ids.begin;
  bart.end = targets.ids.end;
  bart.begin = targets.begin;
  bart.forced_begin = targets.first_token;
  return {file_ids(inputs.ids, bart.vocab_size), file_ids(targets.ids, bart.decoder_vocab_size)};
}

}  // namespace mtf
