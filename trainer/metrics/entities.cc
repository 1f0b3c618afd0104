#include "trainer/metrics/entities.h"

#include <algorithm>
#include <string_view>

namespace mtf {
namespace {

struct Tag {
  char mark = 'O';  ///< B, I, E, S or O
  std::string_view type;
};

/// What is no letter and type counts as O.
Tag parse_tag(std::string_view text) {
  constexpr std::string_view kMarks = "BIES";
  const size_t dash = std::min(text.find('-'), text.size());
  if (dash != 1 || kMarks.find(text[0]) == std::string_view::npos) return {};
  return {text[0], text.substr(std::min(dash + 1, text.size()))};
}

bool ends_between(const Tag& before, const Tag& tag) {
  if (before.mark == 'O') return false;
  if (before.mark == 'E' || before.mark == 'S') return true;
  return tag.mark == 'B' || tag.mark == 'S' || tag.mark == 'O' || tag.type != before.type;
}

bool begins_at(const Tag& before, const Tag& tag) {
  if (tag.mark == 'O') return false;
  if (tag.mark == 'B' || tag.mark == 'S') return true;
  return before.mark == 'O' || before.mark == 'E' || before.mark == 'S' || tag.type != before.type;
}

double share(int64_t part, int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

std::vector<Entity> entities_of(const std::vector<std::string>& tags) {
  std::vector<Entity> entities;
  Tag before;
  for (int64_t i = 0; i <= std::ssize(tags); ++i) {
    const Tag tag = i < std::ssize(tags) ? parse_tag(tags[static_cast<size_t>(i)]) : Tag{};
    if (ends_between(before, tag)) entities.back().end = i;
    if (begins_at(before, tag)) entities.push_back({i, i, std::string(tag.type)});
    before = tag;
  }
  return entities;
}

void EntityCounts::add(const std::vector<std::string>& tags, const std::vector<std::string>& predicted) {
  const std::vector<Entity> there = entities_of(tags), found = entities_of(predicted);
  there_ += std::ssize(there);
  predicted_ += std::ssize(found);
  for (const Entity& entity : found) found_ += std::ranges::binary_search(there, entity);
}

double EntityCounts::precision() const { return share(found_, predicted_); }
double EntityCounts::recall() const { return share(found_, there_); }
double EntityCounts::f1() const { return share(2 * found_, predicted_ + there_); }

}  // namespace mtf
