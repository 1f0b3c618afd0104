#include "data/vocabulary/pre_tokenizer.h"

#include "engine/base/replace_all.h"

namespace mtf {
namespace {

/// Whether a part of a word belongs to the part before it.
bool joins(SplitAtPattern::Matches matches, bool is_match, bool after_match) {
  switch (matches) {
    case SplitAtPattern::Matches::kMergedWithPrevious:
      return is_match && !after_match;
    case SplitAtPattern::Matches::kMergedWithNext:
      return !is_match && after_match;
    case SplitAtPattern::Matches::kContiguous:
      return is_match == after_match;
    default:
      return false;
  }
}

}  // namespace

PreTokenizer::PreTokenizer(const std::vector<PreTokenizerStep>& steps, const std::string& name) {
  for (const PreTokenizerStep& step : steps) {
    if (const auto* split = std::get_if<SplitAtPattern>(&step)) {
      steps_.push_back(
          Split{SearchPattern(split->pattern, split->is_regex, name), split->matches, split->inverted});
    } else {
      steps_.push_back(std::get<SpellBlanks>(step));
    }
  }
}

WordDivision::WordDivision(const PreTokenizer& pre_tokenizer) : pre_tokenizer_(pre_tokenizer) {
  for (const PreTokenizer::Step& step : pre_tokenizer.steps()) {
    if (const auto* split = std::get_if<PreTokenizer::Split>(&step)) matchers_.emplace_back(split->pattern);
  }
}

const std::vector<WordDivision::Word>& WordDivision::divide(std::string_view part, bool begins_text) {
  spelled_.clear();
  words_ = {{part, begins_text}};
  auto matcher = matchers_.begin();
  for (const PreTokenizer::Step& step : pre_tokenizer_.steps()) {
    if (const auto* split = std::get_if<PreTokenizer::Split>(&step)) {
      this->split(*split, *matcher++);
    } else {
      spell(std::get<SpellBlanks>(step));
    }
  }
  return words_;
}

void WordDivision::spell(const SpellBlanks& step) {
  for (Word& word : words_) {
    std::string text(word.text);
    replace_all(text, " ", step.sign);
    const bool has_front = step.front == SpellBlanks::Front::kAlways ||
                           (step.front == SpellBlanks::Front::kBeginOfText && word.begins_text);
    if (has_front && !text.starts_with(step.sign)) text.insert(0, step.sign);
    word.text = spelled_.emplace_back(std::move(text));
  }
}

void WordDivision::split(const PreTokenizer::Split& step, PatternMatcher& matcher) {
  divided_.clear();
  for (const Word& word : words_) {
    const size_t before = divided_.size();
    bool after_match = false;
    matcher.find(word.text, [&](size_t begin, size_t end, bool is_found) {
      const bool is_match = is_found != step.inverted;
      if (divided_.size() > before && joins(step.matches, is_match, after_match)) {
        std::string_view& text = divided_.back().text;
        text = {text.data(), text.size() + (end - begin)};
      } else if (end > begin && !(is_match && step.matches == SplitAtPattern::Matches::kRemoved)) {
        divided_.push_back({word.text.substr(begin, end - begin), word.begins_text && begin == 0});
      }
      after_match = is_match;
    });
  }
  words_.swap(divided_);
}

}  // namespace mtf
