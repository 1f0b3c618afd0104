// The files of a data set that an evaluation replaces, below the directory of a run ("Classes" in docs/file_formats.md):
//
//   evaluation/DATASET.json, evaluation/DATASET.svg    scores of each class and the confusion matrix
//   samples/misclassified-DATASET.jsonl                images that the classifier is wrong about
//
// and those that each evaluation adds:
//
//   evaluate/step-N/DATASET.txt                        what the model has predicted, a line for each text
#pragma once

#include <cstdint>
#include <string>

#include "trainer/evaluation/evaluate.h"

namespace mtf {

/// Atomically writes those files for which `evaluation` has something. Throws Error (kSystem).
void write_evaluation_files(const std::string& directory, int64_t step, const Evaluation& evaluation);

/// Removes the files of evaluations after step `step`. Throws Error (kSystem).
void remove_evaluation_files_after(const std::string& directory, int64_t step);

/// Returns the content of DATASET.json. The matrix is there up to 1,000 classes; of more classes the counts that are not
/// 0 are listed.
std::string classes_json(int64_t step, const Evaluation& evaluation);

}  // namespace mtf
