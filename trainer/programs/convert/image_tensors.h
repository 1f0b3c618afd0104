// The tensors of image networks as PyTorch stores them: matrices are [output, input], kernels of convolutions [output, input,
// rows, cols], and the vectors of positions and of the class token begin with dimensions of 1.
//
//   std::vector<ImageTensor> tensors = {kernel_tensor("stem/kernel", "conv1.weight", {7, 7}, 3, 64)};
//   export_tensors(model, tensors, "runs/resnet", "ResNet", directory);
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainer/programs/convert/hugging_face.h"

namespace mtf {

/// Where a variable is in a file.
struct ImageTensor {
  std::string variable;
  std::string name;  ///< the name of the file's tensor
  std::vector<int64_t>
      axes;  ///< the variable's elements as an array, whose axes the file has in reverse order
  std::vector<int64_t> shape;  ///< the shape of the file's tensor
};

/// A tensor of `shape` whose elements have the order of the variable's.
ImageTensor same_tensor(std::string variable, std::string name, std::vector<int64_t> shape);
/// The kernel of a dense layer.
ImageTensor matrix_tensor(std::string variable, std::string name, int64_t inputs, int64_t outputs);
/// The kernel of a convolution over rows and columns.
ImageTensor kernel_tensor(std::string variable, std::string name, std::pair<int64_t, int64_t> window,
                          int64_t channels, int64_t outputs);

/// Adds to `import` the weights of its configuration that `tensors` has; the names of the others are returned. `kind` names the
/// model in messages. Throws Error (kCheckpoint) for a tensor that is missing, of another shape, or neither in `tensors` nor
/// `ignored`.
std::vector<std::string> import_tensors(const HuggingFaceFiles& files,
                                        const std::vector<ImageTensor>& tensors,
                                        const std::function<bool(const std::string& name)>& ignored,
                                        const std::string& from, std::string_view kind,
                                        HuggingFaceImport& import);

/// Writes directory/model.safetensors, with `counters` as for write_tensors(). Throws Error (kCheckpoint) unless the model's
/// weights are exactly those of `tensors`.
void export_tensors(const ModelWeights& model, const std::vector<ImageTensor>& tensors,
                    const std::string& from, std::string_view kind, const std::string& directory,
                    const std::vector<std::string>& counters = {});

/// Returns the size of dimension `axis` of a weight. Throws Error (kCheckpoint) if there is none; `from` names the model.
int64_t size_in(const ModelWeights& model, const std::string& variable, int axis, const std::string& from);
bool has_weight(const ModelWeights& model, const std::string& variable);

}  // namespace mtf
