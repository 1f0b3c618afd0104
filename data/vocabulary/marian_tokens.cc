#include "data/vocabulary/marian_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "data/input_file.h"
#include "data/vocabulary/tokenizer_file.h"
#include "data/vocabulary/vocabulary.h"
#include "engine/base/error.h"
#include "engine/base/hash.h"
#include "engine/base/json.h"
#include "engine/base/printable.h"

namespace mtf {
namespace {

[[noreturn]] void damaged(const std::string& name, const std::string& what) {
  throw Error(ErrorKind::kData, fmt::format("{}: {}", name, what),
              "the vocab.json of a MarianTokenizer: an object of tokens and their ids");
}

nlohmann::json parse(std::string_view text, const std::string& name) {
  try {
    nlohmann::json json = parse_json(text, [&](const std::string& key) {
      damaged(name, fmt::format("token `{}` occurs twice", printable(key)));
    });
    if (!json.is_object() || json.empty()) damaged(name, "it has no tokens");
    return json;
  } catch (const nlohmann::json::exception& error) {
    damaged(name, fmt::format("it is no JSON ({})", message_of(error)));
  }
}

}  // namespace

MarianTokens::MarianTokens(std::string_view json, std::string name, const std::vector<std::string>& added)
    : name_(std::move(name)), hash_(hash128_hex(json)) {
  const nlohmann::json tokens = parse(json, name_);
  for (const auto& [token, id] : tokens.items()) {
    if (!id.is_number_unsigned() || id >= kMostFileIds)
      damaged(name_, fmt::format("token `{}` has the id {}", printable(token), printable(json_text(id))));
    if (token.empty()) damaged(name_, fmt::format("id {} is that of a token without text", id.dump()));
    const auto place = id.get<size_t>();
    if (place >= tokens_.size()) tokens_.resize(place + 1);
    if (!tokens_[place].empty())
      damaged(name_, fmt::format("id {} is that of `{}` and of `{}`", place, printable(tokens_[place]),
                                 printable(token)));
    tokens_[place] = token;
    ids_.emplace(token, static_cast<int32_t>(place));
  }
  of_file_ = size();
  for (const std::string& token : added) {
    if (token.empty() || !ids_.emplace(token, static_cast<int32_t>(size())).second)
      damaged(name_, fmt::format("token `{}` is an added one, too", printable(token)));
    tokens_.push_back(token);
  }
  if (!added.empty()) hash_ = hash128_hex(fmt::format("{} {}", hash_, fmt::join(added, " ")));
  padding_ = required("<pad>");
  end_ = required("</s>");
  unknown_ = required("<unk>");
}

int32_t MarianTokens::required(std::string_view token) const {
  const std::optional<int32_t> known = id(token);
  if (!known) damaged(name_, fmt::format("it has no token `{}`", token));
  return *known;
}

std::optional<int32_t> MarianTokens::id(std::string_view token) const {
  const auto found = ids_.find(std::string(token));
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

size_t MarianTokens::added_before(std::string_view text) const {
  size_t longest = 0;
  for (size_t id = static_cast<size_t>(of_file_); id < tokens_.size(); ++id) {
    if (text.starts_with(tokens_[id])) longest = std::max(longest, tokens_[id].size());
  }
  return longest;
}

const std::string& MarianTokens::token(int32_t id) const {
  static const std::string kNone;
  return id >= 0 && id < size() ? tokens_[static_cast<size_t>(id)] : kNone;
}

FileIds MarianTokens::file_ids(std::optional<int64_t> given) const {
  if (given && *given < size())
    throw Error(ErrorKind::kData,
                fmt::format("{} has tokens up to id {}, but `size` is {}", name_, size() - 1, *given),
                fmt::format("`size: {}` or more, as the model has them, or no `size`", size()));
  return {.size = given.value_or(size()), .begin = padding_, .end = end_};
}

MarianTokens read_marian_tokens(const std::string& path, const std::vector<std::string>& added) {
  return {read_file(path, "the vocab.json of a MarianTokenizer", kLargestVocabularyFile), path, added};
}

}  // namespace mtf
