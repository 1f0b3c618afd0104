#include "data/vocabulary/tokenizer_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <nlohmann/json.hpp>

#include "data/vocabulary/byte_piece.h"
#include "engine/base/base64.h"
#include "engine/base/error.h"
#include "engine/base/join_words.h"
#include "engine/base/json.h"
#include "engine/base/printable.h"
#include "engine/base/utf8.h"

namespace mtf {
namespace {

/// The rule by which GPT-2 divides a text into words.
constexpr std::string_view kWordsOfGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

/// A value of the file and where it is: "model.merges[3]".
class FileValue {
 public:
  FileValue(const nlohmann::json& json, std::string place, const std::string& file)
      : json_(json), place_(std::move(place)), file_(file) {}

  bool is_null() const { return json_.is_null(); }
  const nlohmann::json& json() const { return json_; }
  const std::string& file() const { return file_; }

  /// Null if there is no such key.
  FileValue at(const std::string& key) const {
    static const nlohmann::json kNull;
    if (!json_.is_object()) refuse("an object");
    const auto found = json_.find(key);
    return {found == json_.end() ? kNull : *found, place_.empty() ? key : fmt::format("{}.{}", place_, key),
            file_};
  }

  std::vector<FileValue> list() const {
    if (!json_.is_array()) refuse("a list");
    std::vector<FileValue> values;
    for (const nlohmann::json& value : json_)
      values.emplace_back(value, fmt::format("{}[{}]", place_, values.size()), file_);
    return values;
  }

  std::string text() const {
    if (!json_.is_string()) refuse("a text");
    return json_.get<std::string>();
  }

  char32_t character() const {
    const std::u32string characters = decode_utf8(text());
    if (characters.size() != 1) refuse("one character");
    return characters[0];
  }

  double real() const {
    if (!json_.is_number()) refuse("a number");
    return json_.get<double>();
  }

  bool flag(bool otherwise) const {
    if (!is_null() && !json_.is_boolean()) refuse("true or false");
    return is_null() ? otherwise : json_.get<bool>();
  }

  int64_t number(int64_t most) const {
    if (!json_.is_number_integer() || json_ < 0 || json_ > most)
      refuse(fmt::format("a whole number from 0 to {}", most));
    return json_.get<int64_t>();
  }

  /// Refuses keys other than these that have a value.
  void check_keys(std::initializer_list<std::string_view> known) const {
    if (!json_.is_object()) refuse("an object");
    for (const auto& [key, value] : json_.items()) {
      if (!value.is_null() && std::ranges::find(known, key) == known.end())
        at(key).refuse(fmt::format("of {} these are supported: {}", place_,
                                   join_words(std::vector<std::string>(known.begin(), known.end()))));
    }
  }

  [[noreturn]] void refuse(const std::string& right) const {
    fail(fmt::format("is `{}`", json_text(json_)), right);
  }

  [[noreturn]] void fail(const std::string& what, const std::string& right) const {
    throw Error(
        ErrorKind::kData,
        shortened(fmt::format("{}: {} {}", file_, place_.empty() ? "the file" : place_, printable(what))),
        right);
  }

 private:
  const nlohmann::json& json_;
  std::string place_;
  const std::string& file_;
};

/// Calls `add` with each step: those of a Sequence, or the one. `steps` is the key of a sequence's list.
template <class Add>
void for_each_step(const FileValue& value, const std::string& steps, const Add& add) {
  if (value.is_null()) return;
  if (value.at("type").text() != "Sequence") return add(value);
  value.check_keys({"type", steps});
  for (const FileValue& step : value.at(steps).list()) for_each_step(step, steps, add);
}

ReplaceText parse_replacement(const FileValue& step) {
  step.check_keys({"type", "pattern", "content"});
  step.at("pattern").check_keys({"String"});
  ReplaceText replacement{step.at("pattern").at("String").text(), step.at("content").text()};
  if (replacement.text.empty()) step.at("pattern").refuse("a text that is replaced");
  return replacement;
}

/// Replaces a text, or what matches a pattern.
NormalizerStep parse_normalizer_replacement(const FileValue& step) {
  const FileValue pattern = step.at("pattern");
  if (pattern.at("Regex").is_null()) return parse_replacement(step);
  step.check_keys({"type", "pattern", "content"});
  pattern.check_keys({"Regex"});
  const std::string regex = pattern.at("Regex").text();
  if (regex.empty()) pattern.refuse("a pattern that is not empty");
  return ReplacePattern{std::make_shared<SearchPattern>(regex, true, step.file()), step.at("content").text()};
}

MapCharacters parse_character_map(const FileValue& step) {
  step.check_keys({"type", "precompiled_charsmap"});
  const FileValue given = step.at("precompiled_charsmap");
  const std::optional<std::string> bytes = decode_base64(given.text());
  std::optional<CharacterMap> map = bytes ? CharacterMap::parse(*bytes) : std::nullopt;
  if (!map) given.fail("is damaged", "the normaliser of a SentencePiece model in base64");
  return {std::make_shared<CharacterMap>(std::move(*map))};
}

NormalizerStep parse_normalizer(const FileValue& step) {
  const std::string type = step.at("type").text();
  if (type == "Replace") return parse_normalizer_replacement(step);
  if (type == "Precompiled") return parse_character_map(step);
  if (type == "NFC") return NormalizeUnicode{};
  if (type == "NFD") return NormalizeUnicode{.is_composed = false};
  if (type == "NFKC") return NormalizeUnicode{.is_compatible = true};
  if (type == "NFKD") return NormalizeUnicode{.is_compatible = true, .is_composed = false};
  if (type == "Strip") {
    step.check_keys({"type", "strip_left", "strip_right"});
    return StripBlanks{step.at("strip_left").flag(true), step.at("strip_right").flag(true)};
  }
  if (type != "Prepend")
    step.at("type").refuse("supported: NFC, NFD, NFKC, NFKD, Precompiled, Prepend, Replace, Strip, Sequence");
  step.check_keys({"type", "prepend"});
  return PrependText{step.at("prepend").text()};
}

SpellBlanks::Front parse_front(const FileValue& step) {
  const FileValue scheme = step.at("prepend_scheme");
  const bool has_front = step.at("add_prefix_space").flag(true);
  if (scheme.is_null()) return has_front ? SpellBlanks::Front::kAlways : SpellBlanks::Front::kNever;
  const std::string name = scheme.text();
  if (name == "never") return SpellBlanks::Front::kNever;
  if (!has_front) scheme.refuse("never, as `add_prefix_space` is false");
  if (name == "always") return SpellBlanks::Front::kAlways;
  if (name != "first") scheme.refuse("supported: always, first, never");
  return SpellBlanks::Front::kBeginOfText;
}

SplitAtPattern::Matches parse_matches(const FileValue& behavior) {
  using Matches = SplitAtPattern::Matches;
  const std::string name = behavior.text();
  if (name == "Removed") return Matches::kRemoved;
  if (name == "Isolated") return Matches::kIsolated;
  if (name == "MergedWithPrevious") return Matches::kMergedWithPrevious;
  if (name == "MergedWithNext") return Matches::kMergedWithNext;
  if (name != "Contiguous")
    behavior.refuse("supported: Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous");
  return Matches::kContiguous;
}

SplitAtPattern parse_split(const FileValue& step) {
  step.check_keys({"type", "pattern", "behavior", "invert"});
  const FileValue pattern = step.at("pattern");
  pattern.check_keys({"String", "Regex"});
  const bool is_regex = !pattern.at("Regex").is_null();
  const std::string text = pattern.at(is_regex ? "Regex" : "String").text();
  if (text.empty()) pattern.refuse("a pattern that is not empty");
  return {text, is_regex, parse_matches(step.at("behavior")), step.at("invert").flag(false)};
}

SplitAtPattern parse_digits(const FileValue& step) {
  step.check_keys({"type", "individual_digits"});
  const bool each = step.at("individual_digits").flag(false);
  return {.pattern = "\\p{N}",
          .matches = each ? SplitAtPattern::Matches::kIsolated : SplitAtPattern::Matches::kContiguous};
}

void add_byte_level(const FileValue& step, TokenizerFile& file) {
  step.check_keys({"type", "add_prefix_space", "trim_offsets", "use_regex"});
  auto* const model = std::get_if<BytePairModel>(&file.model);
  if (model == nullptr) step.refuse("no ByteLevel with a unigram model");
  model->is_byte_level = true;
  if (step.at("add_prefix_space").flag(true)) file.pre_tokenizer.push_back(SpellBlanks{.sign = " "});
  if (step.at("use_regex").flag(true))
    file.pre_tokenizer.push_back(SplitAtPattern{.pattern = std::string(kWordsOfGpt2)});
}

void add_metaspace(const FileValue& step, TokenizerFile& file) {
  step.check_keys({"type", "replacement", "prepend_scheme", "add_prefix_space", "split", "str_rep"});
  const std::string sign = step.at("replacement").text();
  step.at("replacement").character();
  file.pre_tokenizer.push_back(SpellBlanks{sign, parse_front(step)});
  if (step.at("split").flag(true))
    file.pre_tokenizer.push_back(SplitAtPattern{
        .pattern = sign, .is_regex = false, .matches = SplitAtPattern::Matches::kMergedWithNext});
}

void add_pre_tokenizer(const FileValue& step, TokenizerFile& file) {
  if (file.is_byte_level()) step.refuse("no step behind ByteLevel");
  const std::string type = step.at("type").text();
  if (type == "ByteLevel") return add_byte_level(step, file);
  if (type == "Metaspace") return add_metaspace(step, file);
  if (type == "Split") return file.pre_tokenizer.push_back(parse_split(step));
  if (type == "Digits") return file.pre_tokenizer.push_back(parse_digits(step));
  if (type == "WhitespaceSplit") {
    step.check_keys({"type"});
    return file.pre_tokenizer.push_back(
        SplitAtPattern{.pattern = "\\p{White_Space}+", .matches = SplitAtPattern::Matches::kRemoved});
  }
  step.at("type").refuse("supported: ByteLevel, Digits, Metaspace, Split, WhitespaceSplit, Sequence");
}

StripToken parse_strip(const FileValue& step) {
  step.check_keys({"type", "content", "start", "stop"});
  constexpr int64_t kMost = 1 << 20;
  return {step.at("content").character(), step.at("start").number(kMost), step.at("stop").number(kMost)};
}

DecoderStep parse_decoder(const FileValue& step) {
  const std::string type = step.at("type").text();
  if (type == "Replace") return parse_replacement(step);
  if (type == "ByteFallback") return DecodeByteTokens{};
  if (type == "ByteLevel") return DecodeBytes{};
  if (type == "Fuse") return FuseTokens{};
  if (type == "Strip") return parse_strip(step);
  if (type == "Metaspace")
    return DecodeBlanks{step.at("replacement").character(), parse_front(step) != SpellBlanks::Front::kNever};
  step.at("type").refuse("supported: ByteFallback, ByteLevel, Fuse, Metaspace, Replace, Strip, Sequence");
}

/// Older files write "left right", newer ones ["left", "right"].
std::pair<std::string, std::string> parse_pair(const FileValue& merge) {
  constexpr std::string_view kRight = "two tokens: \"left right\" or [\"left\", \"right\"]";
  if (merge.json().is_array()) {
    const std::vector<FileValue> parts = merge.list();
    if (parts.size() != 2) merge.refuse(std::string(kRight));
    return {parts[0].text(), parts[1].text()};
  }
  const std::string text = merge.text();
  const size_t blank = text.find(' ');
  if (blank == std::string::npos || text.find(' ', blank + 1) != std::string::npos)
    merge.refuse(std::string(kRight));
  return {text.substr(0, blank), text.substr(blank + 1)};
}

void add_token(const FileValue& place, int32_t id, const std::string& text,
               std::vector<std::string>& tokens) {
  if (std::ssize(tokens) <= id) tokens.resize(static_cast<size_t>(id) + 1);
  std::string& token = tokens[static_cast<size_t>(id)];
  if (!token.empty() && token != text)
    place.fail(fmt::format("gives id {} to `{}`, which is that of `{}`", id, text, token),
               "another id for each token");
  token = text;
}

/// Pairs of tokens and scores, in the order of their ids.
void parse_unigram(const FileValue& value, TokenizerFile& file) {
  value.check_keys({"type", "unk_id", "vocab", "byte_fallback"});
  UnigramModel& model = file.model.emplace<UnigramModel>();
  for (const FileValue& entry : value.at("vocab").list()) {
    const std::vector<FileValue> pair = entry.list();
    if (pair.size() != 2) entry.refuse("a token and its score");
    const auto id = static_cast<int32_t>(model.scores.size());
    if (id == kMostFileIds) entry.fail("is one token too many", fmt::format("{} at most", kMostFileIds));
    model.scores.push_back(pair[1].real());
    file.tokens.push_back(pair[0].text());
    if (!file.tokens.back().empty()) model.ids[file.tokens.back()] = id;  // the last of equal ones counts
  }
  if (model.scores.empty()) value.at("vocab").refuse("tokens and their scores");
  model.unknown = static_cast<int32_t>(value.at("unk_id").number(std::ssize(model.scores) - 1));
  model.falls_back_to_bytes = value.at("byte_fallback").flag(false);
}

void parse_byte_pairs(const FileValue& value, TokenizerFile& file) {
  value.check_keys({"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
                    "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges"});
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!value.at(key).is_null() && !value.at(key).text().empty()) value.at(key).refuse("supported: null");
  }
  if (const FileValue dropout = value.at("dropout"); !dropout.is_null() && dropout.json() != 0)
    dropout.refuse("null; data.vocabulary draws no other tokens");

  BytePairModel& model = file.model.emplace<BytePairModel>();
  const FileValue vocabulary = value.at("vocab");
  if (!vocabulary.json().is_object()) vocabulary.refuse("an object of tokens and their ids");
  for (const auto& item : vocabulary.json().items()) {
    const auto id = static_cast<int32_t>(vocabulary.at(item.key()).number(kMostFileIds - 1));
    add_token(vocabulary, id, item.key(), file.tokens);
    model.ids.emplace(item.key(), id);
  }
  const auto id_of = [&](const FileValue& place, const std::string& token) {
    const auto found = model.ids.find(token);
    if (found == model.ids.end())
      place.fail(fmt::format("names `{}`, which is no token", token), "a token of model.vocab");
    return found->second;
  };
  for (const FileValue& merge : value.at("merges").list()) {
    const auto [left, right] = parse_pair(merge);
    model.merges.push_back({id_of(merge, left), id_of(merge, right), id_of(merge, left + right)});
  }
  if (const FileValue unknown = value.at("unk_token"); !unknown.is_null())
    model.unknown = id_of(unknown, unknown.text());
  model.fuses_unknown = value.at("fuse_unk").flag(false);
  model.falls_back_to_bytes = value.at("byte_fallback").flag(false);
  model.ignores_merges = value.at("ignore_merges").flag(false);
}

void parse_model(const FileValue& value, TokenizerFile& file) {
  const FileValue type = value.at("type");  // files of old versions have none
  const std::string name = !type.is_null() ? type.text() : value.at("merges").is_null() ? "" : "BPE";
  if (name == "Unigram") return parse_unigram(value, file);
  if (name != "BPE") type.refuse("supported: BPE, Unigram");
  parse_byte_pairs(value, file);
}

void parse_added_token(const FileValue& value, TokenizerFile& file) {
  value.check_keys({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
  AddedToken token{.text = value.at("content").text(),
                   .id = static_cast<int32_t>(value.at("id").number(kMostFileIds - 1)),
                   .is_whole_word = value.at("single_word").flag(false),
                   .takes_blanks_before = value.at("lstrip").flag(false),
                   .takes_blanks_behind = value.at("rstrip").flag(false),
                   .is_normalized = value.at("normalized").flag(!value.at("special").flag(false))};
  const std::optional<int32_t> known =
      std::visit([&](const TokenModel& model) { return model.find_id(token.text); }, file.model);
  if (known && *known != token.id)
    value.at("id").refuse(fmt::format("{}, the id of `{}` in model.vocab", *known, token.text));
  if (!known && token.id > std::ssize(file.tokens))
    value.at("id").refuse(fmt::format("{}, the next id", file.tokens.size()));
  add_token(value, token.id, token.text, file.tokens);
  if (!token.text.empty()) file.added_tokens.push_back(std::move(token));
}

}  // namespace

std::optional<int32_t> TokenModel::find_id(std::string_view token) const {
  const auto found = ids.find(token);
  return found == ids.end() ? std::nullopt : std::optional(found->second);
}

bool TokenModel::append_byte_tokens(std::string_view text, std::vector<int32_t>& to) const {
  const size_t before = to.size();
  for (const char byte : text) {
    const std::optional<int32_t> id = find_id(piece_of_byte(byte));
    if (!id) {
      to.resize(before);
      return false;
    }
    to.push_back(*id);
  }
  return true;
}

void TokenizerFile::drop_added_from(int64_t size) {
  for (const AddedToken& token : added_tokens) {
    if (token.id >= size && token.id < std::ssize(tokens)) tokens[static_cast<size_t>(token.id)].clear();
  }
  std::erase_if(added_tokens, [size](const AddedToken& token) { return token.id >= size; });
  while (std::ssize(tokens) > size && tokens.back().empty()) tokens.pop_back();
}

TokenizerFile parse_tokenizer_file(std::string_view bytes, const std::string& name) {
  constexpr const char* kRight = "a tokenizer.json of Hugging Face's `tokenizers`";
  const auto fail = [&](const std::string& what) {
    throw Error(ErrorKind::kData, fmt::format("{}: {}", name, what), kRight);
  };
  nlohmann::json json;
  try {
    json = parse_json(
        bytes, [&](const std::string& key) { fail(fmt::format("`{}` occurs twice", printable(key))); });
  } catch (const nlohmann::json::exception& error) {
    fail(fmt::format("no JSON: {}", message_of(error)));
  }
  if (!json.is_object() || !json.contains("model")) fail("there is no `model` in it");

  const FileValue root(json, "", name);
  TokenizerFile file;
  parse_model(root.at("model"), file);
  if (const FileValue added = root.at("added_tokens"); !added.is_null()) {
    for (const FileValue& token : added.list()) parse_added_token(token, file);
  }
  for_each_step(root.at("normalizer"), "normalizers",
                [&](const FileValue& step) { file.normalizer.push_back(parse_normalizer(step)); });
  for_each_step(root.at("pre_tokenizer"), "pretokenizers",
                [&](const FileValue& step) { add_pre_tokenizer(step, file); });
  for_each_step(root.at("decoder"), "decoders",
                [&](const FileValue& step) { file.decoder.push_back(parse_decoder(step)); });
  if (file.decoder.empty()) root.at("decoder").refuse("supported: ByteLevel, Metaspace, Sequence");
  return file;
}

}  // namespace mtf
