// Counts of the predictions of a classifier by class, and the metrics that follow from them.
//
//   ConfusionMatrix matrix(10);
//   matrix.add(label, prediction);           // for each example
//   matrix.mean().f1                         // macro-averaged
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace mtf {

/// How well a class is told from the others. With tp examples of the class that are predicted to be of it:
/// precision = tp / predicted, recall = tp / support, f1 = 2 tp / (predicted + support), their harmonic mean, and
/// iou = tp / (predicted + support - tp), intersection over union; 0 where the denominator is 0. These are the definitions
/// of scikit-learn (precision_recall_fscore_support, jaccard_score) with zero_division=0.
struct ClassScores {
  double precision = 0, recall = 0, f1 = 0, iou = 0;
  int64_t support = 0;    ///< examples of the class
  int64_t predicted = 0;  ///< examples that are predicted to be of it
};

/// A count of the matrix that is not 0.
struct ConfusionCell {
  int64_t label = 0, prediction = 0, count = 0;
};

class ConfusionMatrix {
 public:
  explicit ConfusionMatrix(int64_t classes) : classes_(classes) {}

  /// Counts an example. Both are from 0 to classes() - 1.
  void add(int64_t label, int64_t prediction);

  int64_t classes() const { return classes_; }
  int64_t count(int64_t label, int64_t prediction) const;
  /// Returns the counts that are not 0, by label, then by prediction.
  std::vector<ConfusionCell> cells() const;

  /// Share of the examples whose prediction is right; 0 without examples.
  double accuracy() const;
  /// Returns the scores of each class.
  std::vector<ClassScores> scores() const;
  /// Returns precision, recall, f1 and iou macro-averaged: their means over the classes that are the label or the prediction
  /// of an example, as in scikit-learn with average="macro". All other classes are left out.
  ClassScores mean() const;
  /// Returns the correlation of labels and predictions (Matthews, of several classes Gorodkin 2004), as scikit-learn's
  /// matthews_corrcoef; 0 where all labels or all predictions are of one class.
  double matthews() const;

 private:
  int64_t classes_;
  int64_t total_ = 0;                            ///< examples
  std::unordered_map<int64_t, int64_t> counts_;  ///< by label * classes + prediction
};

}  // namespace mtf
