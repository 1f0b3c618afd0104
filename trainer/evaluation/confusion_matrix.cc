#include "trainer/evaluation/confusion_matrix.h"

#include <algorithm>
#include <cmath>

#include "engine/base/check.h"

namespace mtf {
namespace {

double ratio(int64_t part, int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

void ConfusionMatrix::add(int64_t label, int64_t prediction) {
  MTF_CHECK(label >= 0 && label < classes_ && prediction >= 0 && prediction < classes_,
            "label {} and prediction {} of {} classes", label, prediction, classes_);
  ++counts_[label * classes_ + prediction];
  ++total_;
}

int64_t ConfusionMatrix::count(int64_t label, int64_t prediction) const {
  const auto found = counts_.find(label * classes_ + prediction);
  return found == counts_.end() ? 0 : found->second;
}

std::vector<ConfusionCell> ConfusionMatrix::cells() const {
  std::vector<ConfusionCell> cells;
  for (const auto& [place, count] : counts_) cells.push_back({place / classes_, place % classes_, count});
  std::ranges::sort(cells, {}, [&](const ConfusionCell& c) { return c.label * classes_ + c.prediction; });
  return cells;
}

double ConfusionMatrix::accuracy() const {
  int64_t right = 0;
  for (int64_t i = 0; i < classes_; ++i) right += count(i, i);
  return ratio(right, total_);
}

std::vector<ClassScores> ConfusionMatrix::scores() const {
  std::vector<ClassScores> scores(static_cast<size_t>(classes_));
  for (const auto& [place, count] : counts_) {
    scores[static_cast<size_t>(place / classes_)].support += count;
    scores[static_cast<size_t>(place % classes_)].predicted += count;
  }
  for (int64_t i = 0; i < classes_; ++i) {
    ClassScores& of = scores[static_cast<size_t>(i)];
    const int64_t right = count(i, i);
    of.precision = ratio(right, of.predicted);
    of.recall = ratio(right, of.support);
    of.f1 = ratio(2 * right, of.predicted + of.support);
    of.iou = ratio(right, of.predicted + of.support - right);
  }
  return scores;
}

ClassScores ConfusionMatrix::mean() const {
  ClassScores sum;
  double classes = 0;
  for (const ClassScores& of : scores()) {
    if (of.support + of.predicted == 0) continue;
    ++classes;
    sum.precision += of.precision;
    sum.recall += of.recall;
    sum.f1 += of.f1;
    sum.iou += of.iou;
  }
  if (classes == 0) return {};
  return {.precision = sum.precision / classes,
          .recall = sum.recall / classes,
          .f1 = sum.f1 / classes,
          .iou = sum.iou / classes,
          .support = total_,
          .predicted = total_};
}

double ConfusionMatrix::matthews() const {
  double right = 0, by_chance = 0, labels = 0, predictions = 0;
  const std::vector<ClassScores> all = scores();
  for (int64_t i = 0; i < classes_; ++i) {
    const auto support = static_cast<double>(all[static_cast<size_t>(i)].support);
    const auto predicted = static_cast<double>(all[static_cast<size_t>(i)].predicted);
    right += static_cast<double>(count(i, i));
    by_chance += support * predicted;
    labels += support * support;
    predictions += predicted * predicted;
  }
  const auto total = static_cast<double>(total_);
  const double square = (total * total - labels) * (total * total - predictions);
  return square > 0 ? (right * total - by_chance) / std::sqrt(square) : 0;
}

}  // namespace mtf
