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
  std::vector<int64_t> shape;  ///< the shape of the file's tensor, or of the variable's part of it
  /// The file's tensor is so many variables of this size one behind the other along its first axis, and this is number `part`.
  int64_t parts = 1, part = 0;
  /// Makes the variable's elements of the file's, where they are others; an export does not turn it back.
  std::function<std::vector<float>(const std::vector<float>&)> change = {};
};

/// A tensor of `shape` whose elements have the order of the variable's.
ImageTensor same_tensor(std::string variable, std::string name, std::vector<int64_t> shape);
/// The kernel of a dense layer.
ImageTensor matrix_tensor(std::string variable, std::string name, int64_t inputs, int64_t outputs);
/// The kernel of a convolution over rows and columns.
ImageTensor kernel_tensor(std::string variable, std::string name, std::pair<int64_t, int64_t> window,
                          int64_t channels, int64_t outputs);

/// The same tensor as part `part` of a file's tensor of `parts` parts.
ImageTensor part_of(ImageTensor tensor, int64_t part, int64_t parts);

/// Adds to `import` the weights of its configuration that `tensors` has; the names of the others are returned. `kind` names the
/// model in messages. Throws Error (kCheckpoint) for a tensor that is missing, of another shape, or neither in `tensors` nor
/// `ignored`.
std::vector<std::string> import_tensors(const HuggingFaceFiles& files,
                                        const std::vector<ImageTensor>& tensors,
                                        const std::function<bool(const std::string& name)>& ignored,
                                        const std::string& from, std::string_view kind,
                                        HuggingFaceImport& import);

/// Writes directory/model.safetensors, with `counters` as for write_tensors() and with `others` beside the weights. Throws Error
/// (kCheckpoint) unless the model's weights are exactly those of `tensors`.
void export_tensors(const ModelWeights& model, const std::vector<ImageTensor>& tensors,
                    const std::string& from, std::string_view kind, const std::string& directory,
                    const std::vector<std::string>& counters = {}, std::vector<WrittenTensor> others = {});

/// Returns the size of dimension `axis` of a weight. Throws Error (kCheckpoint) if there is none; `from` names the model.
int64_t size_in(const ModelWeights& model, const std::string& variable, int axis, const std::string& from);
bool has_weight(const ModelWeights& model, const std::string& variable);

}  // namespace mtf
