#include "trainer/programs/report/curves.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>

#include "engine/base/counted.h"

namespace mtf {
namespace {

using Json = nlohmann::ordered_json;

/// The columns that are positions of a point, not metrics; a point has their last value.
constexpr std::array<std::string_view, 3> kAxes = {"step", "time", "epoch"};
/// Counters that say the same as the step.
constexpr std::array<std::string_view, 2> kCounters = {"examples", "tokens"};

bool is_among(std::string_view name, std::span<const std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

/// Returns the number with six digits, or null.
Json short_number(double number) {
  if (!std::isfinite(number)) return {};
  if (number == std::floor(number) && std::abs(number) < 1e15) return static_cast<int64_t>(number);
  return to_six_digits(number);
}

}  // namespace

void Curves::Range::add(const Range& other) {
  if (other.count == 0) return;
  low = count == 0 ? other.low : std::min(low, other.low);
  high = count == 0 ? other.high : std::max(high, other.high);
  sum += other.sum;
  count += other.count;
}

size_t Curves::index_of(const std::string& name) {
  const auto found = std::ranges::find(names_, name);
  if (found != names_.end()) return static_cast<size_t>(found - names_.begin());
  if (names_.size() >= kMostMetrics) return kMostMetrics;
  names_.push_back(name);
  last_.push_back(std::numeric_limits<double>::quiet_NaN());
  not_finite_.push_back(0);
  return names_.size() - 1;
}

void Curves::add(const std::vector<std::pair<std::string, double>>& numbers) {
  if (points_.empty() || points_.back().lines >= lines_per_point_) {
    if (points_.size() >= 2 * most_) merge_pairs();
    if (points_.empty() || points_.back().lines >= lines_per_point_) points_.emplace_back();
  }
  ++lines_;
  Point& point = points_.back();
  ++point.lines;
  for (const auto& [name, value] : numbers) {
    const size_t metric = index_of(name);
    if (metric == kMostMetrics) continue;
    last_[metric] = value;
    if (!std::isfinite(value)) {
      ++not_finite_[metric];
      continue;
    }
    if (point.values.size() <= metric) point.values.resize(names_.size());
    if (is_among(name, kAxes)) {
      point.values[metric] = {1, value, value, value};
    } else {
      point.values[metric].add({1, value, value, value});
    }
  }
}

/// Each pair of points becomes one.
void Curves::merge_pairs() {
  std::vector<Point> merged;
  for (size_t i = 0; i < points_.size(); i += 2) {
    Point point = std::move(points_[i]);
    if (i + 1 < points_.size()) {
      const Point& next = points_[i + 1];
      point.lines += next.lines;
      point.values.resize(std::max(point.values.size(), next.values.size()));
      for (size_t metric = 0; metric < next.values.size(); ++metric) {
        if (is_among(names_[metric], kAxes) && next.values[metric].count > 0) {
          point.values[metric] = next.values[metric];
        } else {
          point.values[metric].add(next.values[metric]);
        }
      }
    }
    merged.push_back(std::move(point));
  }
  points_ = std::move(merged);
  lines_per_point_ *= 2;
}

void Curves::thin(size_t most) {
  while (points_.size() > std::max<size_t>(most, 2)) merge_pairs();
}

double Curves::last(std::string_view name) const {
  const auto found = std::ranges::find(names_, name);
  if (found == names_.end()) return std::numeric_limits<double>::quiet_NaN();
  return last_[static_cast<size_t>(found - names_.begin())];
}

Json Curves::metric_json(size_t metric) const {
  Json mean = Json::array(), low = Json::array(), high = Json::array();
  for (const Point& point : points_) {
    const Range range = metric < point.values.size() ? point.values[metric] : Range();
    if (range.count == 0) {
      for (Json* list : {&mean, &low, &high}) list->push_back(nullptr);
      continue;
    }
    mean.push_back(short_number(range.sum / static_cast<double>(range.count)));
    low.push_back(short_number(range.low));
    high.push_back(short_number(range.high));
  }
  Json result{{"mean", std::move(mean)}};
  if (lines_per_point_ > 1) {
    result["low"] = std::move(low);
    result["high"] = std::move(high);
  }
  return result;
}

Json Curves::json() const {
  Json result{{"lines", lines_}};
  Json metrics = Json::object(), not_finite = Json::object();
  for (size_t metric = 0; metric < names_.size(); ++metric) {
    const std::string& name = names_[metric];
    if (not_finite_[metric] > 0) not_finite[name] = not_finite_[metric];
    if (is_among(name, kAxes)) {
      result[name] = metric_json(metric)["mean"];
    } else if (!is_among(name, kCounters)) {
      metrics[name] = metric_json(metric);
    }
  }
  result["metrics"] = std::move(metrics);
  result["not_finite"] = std::move(not_finite);
  return result;
}

}  // namespace mtf
