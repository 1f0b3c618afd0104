#include "trainer/metrics/edit_rate.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <tuple>

#include "trainer/metrics/edit_distance.h"

namespace mtf {
namespace {

constexpr size_t kLongestShift = 10;
constexpr size_t kFarthestShift = 50;
constexpr int64_t kMostCandidates = 1000;

/// Moves the words [begin, begin + length) of the hypothesis before word `target`.
struct Shift {
  size_t begin = 0;
  size_t length = 0;
  size_t target = 0;
};

/// Applies a shift. A target within the shifted words moves them forward by their length.
Units shifted(const Units& words, const Shift& shift) {
  Units result = words;
  const auto at = [&result](size_t i) { return result.begin() + static_cast<std::ptrdiff_t>(i); };
  const size_t end = shift.begin + shift.length;
  if (shift.target < shift.begin) {
    std::rotate(at(shift.target), at(shift.begin), at(end));
  } else {
    const size_t behind =
        shift.target > end ? shift.target : std::min(shift.target + shift.length, words.size());
    std::rotate(at(shift.begin), at(end), at(behind));
  }
  return result;
}

/// Searches for the shift that saves most edits.
class ShiftSearch {
 public:
  ShiftSearch(const Units& hypothesis, const Units& reference, EditDistance& distance, int64_t& candidates)
      : hypothesis_(hypothesis),
        reference_(reference),
        distance_(distance),
        candidates_(candidates),
        alignment_(distance.alignment()) {}

  /// The best shift, nullopt if no shift can be tried. The shifts that are tried are counted in `candidates`.
  struct Best {
    int64_t saved = 0;
    Shift shift;
  };
  std::optional<Best> find() {
    for (size_t h = 0; h < hypothesis_.size(); ++h) {
      const size_t first = h > kFarthestShift ? h - kFarthestShift : 0;
      const size_t last = std::min(reference_.size(), h + kFarthestShift + 1);
      for (size_t r = first; r < last; ++r) {
        const size_t longest = common_words(h, r);
        for (size_t length = 1; length <= longest; ++length) {
          if (!may_shift(h, r, length)) continue;
          try_targets(h, r, length);
          if (candidates_ >= kMostCandidates) return best_;
        }
      }
    }
    return best_;
  }

 private:
  size_t common_words(size_t h, size_t r) const {
    const size_t most = std::min({kLongestShift, hypothesis_.size() - h, reference_.size() - r});
    size_t length = 0;
    while (length < most && hypothesis_[h + length] == reference_[r + length]) ++length;
    return length;
  }

  /// True if both sides have an error and the words would not move within themselves.
  bool may_shift(size_t h, size_t r, size_t length) const {
    const auto any = [length](const std::vector<bool>& errors, size_t begin) {
      const auto first = errors.begin() + static_cast<std::ptrdiff_t>(begin);
      return std::any_of(first, first + static_cast<std::ptrdiff_t>(length), std::identity());
    };
    if (!any(alignment_.hypothesis_error, h) || !any(alignment_.reference_error, r)) return false;
    const int64_t position = alignment_.hypothesis_position[r];
    return position < static_cast<int64_t>(h) || position >= static_cast<int64_t>(h + length);
  }

  /// Tries to move the words behind each word that corresponds to a reference word from r - 1 on.
  void try_targets(size_t h, size_t r, size_t length) {
    std::optional<size_t> previous;
    for (size_t offset = 0; offset <= length; ++offset) {
      // The words move behind the one that corresponds to reference word r + offset - 1.
      if (r + offset > reference_.size()) break;
      const size_t target =
          r + offset == 0 ? 0 : static_cast<size_t>(alignment_.hypothesis_position[r + offset - 1] + 1);
      if (previous == target) continue;
      previous = target;
      consider({h, length, target});
    }
  }

  /// Evaluates a shift. Among shifts that save equally many edits the longest wins, then the earliest, then
  /// the one with the earliest target.
  void consider(const Shift& shift) {
    ++candidates_;
    const Units words = shifted(hypothesis_, shift);
    const int64_t saved = distance_.edits() - distance_.edits_of(words, std::min(shift.begin, shift.target));
    const auto rank = [](int64_t edits, const Shift& s) {
      return std::tuple(edits, s.length, -static_cast<int64_t>(s.begin), -static_cast<int64_t>(s.target));
    };
    if (!best_ || rank(saved, shift) > rank(best_->saved, best_->shift)) best_ = Best{saved, shift};
  }

  const Units& hypothesis_;
  const Units& reference_;
  EditDistance& distance_;
  int64_t& candidates_;
  Alignment alignment_;
  std::optional<Best> best_;
};

}  // namespace

int64_t edit_count(const Units& hypothesis, const Units& reference) {
  if (reference.empty()) return static_cast<int64_t>(hypothesis.size());
  EditDistance distance(reference, hypothesis.size());
  Units words = hypothesis;
  distance.set(words);
  int64_t shifts = 0, candidates = 0;
  while (const auto best = ShiftSearch(words, reference, distance, candidates).find()) {
    if (candidates >= kMostCandidates || best->saved <= 0) break;
    words = shifted(words, best->shift);
    distance.set(words);
    ++shifts;
  }
  return shifts + distance.edits();
}

}  // namespace mtf
