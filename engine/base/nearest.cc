#include "engine/base/nearest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <limits>

namespace mtf {
namespace {

/// Names for which a nearest one is looked for have at most so many characters: distances take quadratic time.
constexpr int64_t kLongestName = 300;

bool same_letter(char a, char b) {
  return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
}

/// Returns the name in lower case without `_` and `-`.
std::string letters_of(std::string_view name) {
  std::string letters;
  for (const char c : name) {
    if (c != '_' && c != '-') letters += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return letters;
}

}  // namespace

int64_t edit_distance(std::string_view a, std::string_view b) {
  const size_t columns = b.size() + 1;
  std::vector<int64_t> before(columns), above(columns), row(columns);
  for (size_t j = 0; j < columns; ++j) above[j] = static_cast<int64_t>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = static_cast<int64_t>(i);
    for (size_t j = 1; j < columns; ++j) {
      const int64_t replaced = above[j - 1] + (same_letter(a[i - 1], b[j - 1]) ? 0 : 1);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && same_letter(a[i - 1], b[j - 2]) && same_letter(a[i - 2], b[j - 1])) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    std::swap(before, above);
    std::swap(above, row);
  }
  return above.back();
}

std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string* best = nullptr;
  int64_t smallest = std::numeric_limits<int64_t>::max();
  for (const std::string& candidate : candidates) {
    const auto [shorter, longer] = std::minmax({std::ssize(word), std::ssize(candidate)});
    const int64_t allowed = longer < 3 ? 0 : (longer + 2) / 3;
    // At least the difference of the lengths; and what is as long as a page was not typed.
    if (longer - shorter > allowed || longer > kLongestName) continue;
    const int64_t distance = edit_distance(word, candidate);
    if (distance <= allowed && distance < smallest) {
      smallest = distance;
      best = &candidate;
    }
  }
  if (!best) return std::nullopt;
  return *best;
}

std::string did_you_mean_file(const std::string& path) {
  namespace fs = std::filesystem;
  constexpr int kMostEntries = 1000;
  const fs::path missing(path), directory = missing.has_parent_path() ? missing.parent_path() : fs::path(".");
  std::error_code error;
  std::vector<std::string> names;
  fs::directory_iterator entry(directory, error);
  for (int i = 0; !error && i < kMostEntries && entry != fs::directory_iterator(); ++i) {
    if (entry->is_regular_file(error)) names.push_back(entry->path().filename().string());
    entry.increment(error);
  }
  std::ranges::sort(names);
  const std::optional<std::string> near = nearest(missing.filename().string(), names);
  return near ? fmt::format("did you mean `{}`?", (missing.parent_path() / *near).string()) : "";
}

std::string nearest_multiples(int64_t factor, int64_t wanted) {
  const int64_t below = wanted / factor * factor;
  return below > 0 ? fmt::format("it could be {} or {}", below, below + factor)
                   : fmt::format("it could be {}", factor);
}

bool is_same_name(std::string_view a, std::string_view b) { return letters_of(a) == letters_of(b); }

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates,
                         std::span<const CommonName> common_names) {
  for (const CommonName& common : common_names) {
    if (is_same_name(common.word, word)) return fmt::format("did you mean {}?", common.meant);
  }
  if (const auto near = nearest(word, candidates)) return fmt::format("did you mean `{}`?", *near);
  constexpr size_t kShown = 12;
  std::string list;
  for (size_t i = 0; i < std::min(candidates.size(), kShown); ++i) {
    list += fmt::format("{}`{}`", i > 0 ? ", " : "", candidates[i]);
  }
  if (list.empty()) return {};
  if (candidates.size() > kShown) list += ", …";
  return candidates.size() == 1 ? "only " + list + " is known here" : "one of " + list;
}

}  // namespace mtf
