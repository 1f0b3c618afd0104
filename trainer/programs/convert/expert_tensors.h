// The kernels of experts in Hugging Face format. A variable here has those of all experts, [experts, input, output]. A file
// has a tensor [output, input] for each expert; some files of transformers 5 have one for all of them instead, in which the
// kernels that read the same input may be parts of one tensor: [experts, parts * output, input]. Exports have one for each
// expert, which every version reads.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/graph/variable.h"
#include "trainer/programs/convert/hugging_face.h"

namespace mtf {

/// The tensors that hold the kernels of a layer's experts.
struct ExpertTensors {
  std::string of_each;                 ///< name, with * for the number of the expert
  std::string of_all;                  ///< name in files with one tensor
  int64_t part = 0, parts_of_all = 1;  ///< which part of the rows of `of_all`
};

/// Finds a tensor of a file; null: there is none.
using FindTensor = std::function<const StoredTensor*(const std::string& name)>;

struct ImportedExperts {
  HostTensor value;
  std::vector<std::string> used;  ///< names of the tensors
};

/// Returns the value of a variable. `from` names the model in messages. Throws Error (kCheckpoint) where a tensor is missing
/// or has another shape.
ImportedExperts import_experts(const Variable& variable, const ExpertTensors& theirs, const FindTensor& find,
                               const std::string& from);

/// Returns the tensors of a weight, one for each expert.
std::vector<WrittenTensor> export_experts(const ModelWeight& weight, const ExpertTensors& theirs);

}  // namespace mtf
