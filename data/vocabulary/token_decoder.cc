#include "data/vocabulary/token_decoder.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

#include "data/vocabulary/byte_characters.h"
#include "data/vocabulary/byte_piece.h"
#include "engine/base/replace_all.h"
#include "engine/base/utf8.h"

namespace mtf {
namespace {

std::string joined(const std::vector<std::string>& tokens) {
  return std::accumulate(tokens.begin(), tokens.end(), std::string());
}

struct StepOnTokens {
  std::vector<std::string> tokens;

  void operator()(const DecodeBytes&) {
    std::string bytes;
    for (const std::string& token : tokens) bytes += bytes_of_characters(token);
    tokens = {valid_utf8(bytes)};
  }

  void operator()(const DecodeByteTokens&) {
    std::vector<std::string> result;
    std::string bytes;
    const auto end_bytes = [&] {
      if (first_invalid_byte(bytes)) {
        for (size_t i = 0; i < bytes.size(); ++i) result.emplace_back("\ufffd");
      } else if (!bytes.empty()) {
        result.push_back(bytes);
      }
      bytes.clear();
    };
    for (std::string& token : tokens) {
      if (const std::optional<char> byte = byte_of_piece(token)) {
        bytes += *byte;
      } else {
        end_bytes();
        result.push_back(std::move(token));
      }
    }
    end_bytes();
    tokens = std::move(result);
  }

  void operator()(const FuseTokens&) { tokens = {joined(tokens)}; }

  void operator()(const StripToken& step) {
    std::string character;
    append_utf8(step.character, character);
    for (std::string& token : tokens) {
      for (int64_t i = 0; i < step.at_begin && token.starts_with(character); ++i)
        token.erase(0, character.size());
      for (int64_t i = 0; i < step.at_end && token.ends_with(character); ++i)
        token.resize(token.size() - character.size());
    }
  }

  void operator()(const DecodeBlanks& step) {
    std::string sign;
    append_utf8(step.sign, sign);
    for (std::string& token : tokens) {
      const bool strips = step.strips_first && &token == tokens.data();
      replace_all(token, sign, strips ? "" : " ");
    }
  }

  void operator()(const ReplaceText& step) {
    for (std::string& token : tokens) replace_all(token, step.text, step.content);
  }
};

}  // namespace

std::string join_tokens(std::span<const DecoderStep> steps, std::vector<std::string> tokens) {
  StepOnTokens applier{std::move(tokens)};
  for (const DecoderStep& step : steps) std::visit(applier, step);
  return joined(applier.tokens);
}

}  // namespace mtf
