// The vocabulary `letters`: each of some letters is a token, and all others are one unknown token.
#include <fmt/format.h>

#include <set>

#include "data/vocabulary/vocabulary_options.h"

namespace mtf {
namespace {

constexpr int32_t kUnknownId = 2, kFirstLetterId = 3;

/// Ids: 0 padding, 1 end of sequence, 2 unknown, then the bytes of `letters` in their order.
class LetterVocabulary final : public Vocabulary {
 public:
  explicit LetterVocabulary(std::string letters) : letters_(std::move(letters)) {}

  int64_t size() const override { return kFirstLetterId + static_cast<int64_t>(letters_.size()); }
  std::vector<int32_t> encode(std::string_view text) const override {
    std::vector<int32_t> ids;
    for (const char byte : text) {
      const size_t place = letters_.find(byte);
      ids.push_back(place == std::string::npos ? kUnknownId : kFirstLetterId + static_cast<int32_t>(place));
    }
    return ids;
  }
  std::string decode(std::span<const int32_t> ids) const override {
    std::string text;
    for (const int32_t id : ids) {
      if (id == kEosId) break;
      if (id != kPadId && id >= 0 && id < size()) text += id == kUnknownId ? "?" : piece(id);
    }
    return text;
  }
  std::string piece(int32_t id) const override {
    if (id < 0 || id >= size()) return {};
    constexpr std::string_view special[] = {"<pad>", "</s>", "<unk>"};
    return id < kFirstLetterId ? std::string(special[id]) : std::string(1, letters_[id - kFirstLetterId]);
  }
  std::string fingerprint() const override { return "letters " + letters_; }

 private:
  std::string letters_;
};

struct LettersOptions final : VocabularyOptions {
  static constexpr std::string_view type_name = "letters";
  static constexpr bool type_required = true;
  std::string letters = "abcdefghijklmnopqrstuvwxyz ";

  std::unique_ptr<Vocabulary> read(const Mark&) const override {
    return std::make_unique<LetterVocabulary>(letters);
  }
};

void describe(config::Visitor& visit, LettersOptions& options) {
  visit("letters", options.letters, "the letters that are tokens");
  visit.check([&options](const config::Report& report) {
    if (std::set<char>(options.letters.begin(), options.letters.end()).size() < options.letters.size())
      report.error("letters", "a letter stands in `letters` twice", "each letter once");
  });
}

const config::Registration<VocabularyOptions, LettersOptions> letters;

}  // namespace
}  // namespace mtf
