#include "data/text/text_problems.h"

#include <fmt/format.h>

#include <algorithm>

namespace mtf {

void TextProblems::add(const std::string& path, std::string_view unit, int64_t number,
                       const std::string& what, const std::string& hint) {
  constexpr size_t kShown = 3;
  const auto same =
      std::ranges::find_if(kinds_, [&](const Kind& k) { return k.path == path && k.hint == hint; });
  if (same == kinds_.end()) {
    kinds_.push_back({path, std::string(unit), what, hint, number, 1, {}});
    return;
  }
  ++same->count;
  if (same->next.size() < kShown) same->next.push_back(number);
}

std::vector<Problem> TextProblems::problems() const {
  std::vector<Problem> result = whole_;
  for (const Kind& kind : kinds_) {
    std::string message = fmt::format("{}: {} {}: {}", kind.path, kind.unit, kind.first, kind.what);
    if (kind.count > 1) {
      const auto unnamed = kind.count - 1 - static_cast<int64_t>(kind.next.size());
      message +=
          fmt::format("; the same in {} {}{}", kind.next.size() == 1 ? kind.unit : kind.unit + "s",
                      fmt::join(kind.next, ", "), unnamed > 0 ? fmt::format(" and {} more", unnamed) : "");
    }
    result.push_back({ErrorKind::kData, {}, std::move(message), kind.hint, {}});
  }
  return result;
}

void TextProblems::throw_if_any() const {
  if (!empty()) throw Error(problems());
}

}  // namespace mtf
