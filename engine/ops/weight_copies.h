// Products with copies of weights, in fewer bits than they are trained in (precision.infer) or in the order in which
// products read them, for graphs that only infer.
//
//   use_weight_copies(graph, options);
//   Tensor y = einsum({x, w}, {batch, hidden});      // w is a weight, or a view of one: a copy of it is read
//   const std::unique_ptr<Graph> conversion = graph.weight_copies()->conversion(0, 1);   // makes the copy
//
// Copies are variables of kind kCopy. Programs of the conversion set them from the weights, before programs that infer
// run; these no longer read the weights, unless something else than products does.
//
//   float32   copies are stored in strips (kStripColumns of einsum.h); no result changes
//   bfloat16  both factors are rounded to bfloat16; sums and the result are float32; in strips, too, where these fit
//   int8      x is rounded with a scale for each row, the weight with one for each column (int8_product.h)
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "engine/graph/graph.h"
#include "engine/ops/int8_product.h"

namespace mtf {

struct WeightCopyOptions {
  DType type = DType::kInt8;  ///< kFloat32, kBFloat16 or kInt8
  bool in_strips = false;     ///< copies in float32 and bfloat16 are: for processors
  /// The number of parts into which layouts cut a dimension: the order of a copy in memory follows from it, and no result
  /// does. Null: 1.
  std::function<int64_t(const std::string& dimension)> parts = {};
};

/// Sums of fewer entries read the weight itself: rounding what they sum would take as long as they do (maps of heads).
inline constexpr int64_t kLeastCopiedSum = 16;

/// Larger weights in float32 that are stored column by column have no copies: tables of embeddings, which are read, too, so that
/// memory has both.
inline constexpr int64_t kMostTableBytes = int64_t{64} << 20;

/// The copies of the weights of a graph.
class WeightCopies {
 public:
  explicit WeightCopies(WeightCopyOptions options) : options_(std::move(options)) {}
  WeightCopies(const WeightCopies&) = delete;

  /// Returns the product of a and b summed down to `output`, whose dimensions are among theirs, if one of them is a weight.
  /// Null: neither is one or both are, it has a dimension that is neither summed nor only in one of them, it sums fewer than
  /// kLeastCopiedSum or more than kMostInt8Products entries, the other is float64, or a copy in float32 would not be faster.
  Tensor product(const Tensor& a, const Tensor& b, const Shape& output);

  /// The number of copies.
  int64_t size() const { return std::ssize(copies_); }
  /// The bytes of the weight of which copy `i` is made.
  int64_t weight_bytes(int64_t i) const;
  /// Returns a graph that sets the copies first ... last - 1 from the weights.
  std::unique_ptr<Graph> conversion(int64_t first, int64_t last) const;

 private:
  struct Copy {
    Tensor weight;  ///< the factor: a weight, or a view of one
    Shape columns, summed;
    bool in_strips = false;
    const Variable* values = nullptr;
    const Variable* scale = nullptr;  ///< null in bfloat16
  };

  const Copy& copy_of(const Copy& wanted);
  Copy declared(Copy copy) const;
  bool fits(const Shape& shape, int64_t group) const;
  bool fits_strips(const Copy& copy, const Shape& output) const;
  Quantized codes_of(const Tensor& x, const Shape& summed);

  WeightCopyOptions options_;
  std::vector<Copy> copies_;
  std::map<std::string, size_t> known_;  ///< indices into copies_, by what they are made of
  /// The codes of what several products multiply (queries, keys and values are made of one tensor), with their order.
  std::map<std::tuple<const Operation*, int, std::string>, Quantized> codes_;
};

/// Contractions with weights that are added from now on read copies of these, if there are options.
void use_weight_copies(Graph& graph, const std::optional<WeightCopyOptions>& options);

}  // namespace mtf
