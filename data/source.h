// The interface of a source of examples: a fixed number of rows with the same named features, read by row
// index. Batches and epochs are made from it by loader.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "engine/base/error.h"
#include "engine/core/dtype.h"
#include "engine/core/shape.h"

namespace mtf {

/// One named tensor of every example; `shape` is without the batch dimension.
struct Feature {
  std::string name;
  Shape shape;
  DType dtype = DType::kFloat32;
  /// The values are ids from 0 to vocabulary - 1; a target may be a negated id. 0: the values are no ids.
  int64_t vocabulary = 0;
  /// Only batches of training have it, and evaluation does without.
  bool training_only = false;
  /// Each row is one text and then padding; of the types of tokens: no row has a second text, all are 0. Features that differ
  /// in this alone are equal: they go into the same model.
  bool one_text = false;

  /// The number of bytes of one example's value.
  int64_t bytes() const { return bytes_of(shape, dtype); }
  friend bool operator==(const Feature& a, const Feature& b) {
    return std::tie(a.name, a.shape, a.dtype, a.vocabulary, a.training_only) ==
           std::tie(b.name, b.shape, b.dtype, b.vocabulary, b.training_only);
  }
};

/// A part of a feature's value: a range of indices along each dimension.
struct Box {
  std::vector<int64_t> begin;  ///< the first index along each dimension
  Shape shape;                 ///< the feature's dimensions, with the number of indices in the box as sizes

  /// The box that is all of `shape`.
  static Box whole(const Shape& shape);
  friend bool operator==(const Box&, const Box&) = default;
};

/// Where one feature of the examples goes, which part of it is read, and in which form.
struct FeatureSlice {
  std::byte* output;         ///< [rows, shape of the box], row-major
  const Box* box = nullptr;  ///< nullptr: the whole value
  bool in_bytes = false;     ///< as uint8, of which 255 stands for 1: only if the source has it in bytes

  DType dtype(const Feature& feature) const { return in_bytes ? DType::kUInt8 : feature.dtype; }
  /// The number of bytes of one example's part.
  int64_t bytes(const Feature& feature) const {
    return bytes_of(box ? box->shape : feature.shape, dtype(feature));
  }
};

/// Calls `use(first, count)` for each contiguous run of elements of a box in an array of shape `shape`, in the
/// order of the elements; without a box, for all of them. Allocates nothing.
template <class Use>
void for_each_run(const Shape& shape, const Box* box, const Use& use);

/// Copies the part of one example's value that `box` says and returns the end of the output. `value` is the whole
/// value, row-major. Allocates nothing.
std::byte* copy_box(const Feature& feature, const Box* box, const std::byte* value, std::byte* output);

/// The name of class labels in sources that name their features themselves.
inline constexpr std::string_view kLabelsFeature = "labels";

/// What a model's labels are: numbers from 0 to classes - 1.
struct LabelRange {
  int64_t classes = 0;
  std::string_view feature = kLabelsFeature;
  bool may_lack = false;  ///< a number in the place of a label may say that there is none
  /// Where labels may lack, the number that says so; nothing: all below 0 do.
  std::optional<int64_t> missing = {};

  /// True for the number of a class, and for one that says that there is none.
  bool contains(int64_t label) const {
    if (may_lack && (missing ? label == *missing : label < 0)) return true;
    return label >= 0 && label < classes;
  }
};

class Source {
 public:
  virtual ~Source() = default;

  /// The number of examples, at least 1.
  virtual int64_t examples() const = 0;

  virtual const std::vector<Feature>& features() const = 0;

  /// True if feature f, of float32, is made of bytes, 0..255 for 0..1, and read() can give these: a fourth of the memory.
  virtual bool has_bytes(size_t /*f*/) const { return false; }

  /// Reads the examples `rows`, in this order; an index may occur several times. slices[f] says which part of
  /// feature f is read, and where it goes. It is safe to call from several threads. Sources that hold their
  /// examples in memory allocate nothing.
  virtual void read(std::span<const int64_t> rows, std::span<const FeatureSlice> slices) const = 0;

  /// Reads rows of a batch of training. `examples` and `epochs` say of each row, and of the one that follows the last of
  /// them in the batch (after the batch's last its first), which example it is, and how often the stream has given all
  /// examples before. By default what read() gives.
  virtual void read_training(std::span<const int64_t> examples, std::span<const int64_t> epochs,
                             std::span<const FeatureSlice> slices) const;

  /// The bytes of memory that reading `rows` rows takes for a while, besides the output.
  virtual int64_t bytes_of_reading(int64_t /*rows*/) const { return 0; }

  /// Returns the example in row `row` of the endless stream of training, a pure function of its arguments. By
  /// default epoch e is the permutation P(seed, e) of all examples (permutation.h), or without a seed the
  /// order of the source.
  virtual int64_t stream_example(int64_t row, std::optional<uint64_t> seed) const;

  /// False: the number of examples is not known, and none can be read.
  virtual bool has_examples() const { return true; }

  /// The number of times that the stream has given all examples before row `row` (a source among several: all of its
  /// own).
  virtual int64_t stream_epoch(int64_t row) const { return row / examples(); }

  /// The bytes of memory that hold examples.
  virtual int64_t bytes_in_memory() const { return 0; }

  /// The names of the classes that feature `labels` numbers; empty: they are not known.
  virtual std::vector<std::string> class_names() const { return {}; }

  /// The file that is the example, as the source names it; empty: it is none of its own.
  virtual std::string example_name(int64_t /*example*/) const { return {}; }

  /// A number that depends on the content or the file of the example alone: `data.split` divides examples by it, so
  /// that an example stays where it is when others are added. By default the hash of all its features.
  virtual uint64_t example_hash(int64_t example) const;

  /// A text that differs where the examples or their order do: the processes of a run compare it. By default a hash of the
  /// features of all examples if these take up to 64 MiB, or else of up to 1024 of them, which are evenly spaced.
  virtual std::string fingerprint() const;

  /// What the data of an evaluation must take over from the training data, as JSON: the names of classes, means and
  /// deviations. Empty: nothing.
  virtual std::string preparation() const { return {}; }

  /// Throws Error (kData), which names the file, when a label is none of `classes`. A source without such labels accepts all.
  virtual void check_labels(const LabelRange& classes) const;
  /// Throws Error (kData, at `mark`) when an example does not have one target for each input. Only sources of
  /// text check this.
  virtual void check_aligned(const Mark& mark) const;

  /// Called before the stream of training is read from some row on, while no read_training() runs. `end`: the row before
  /// which the reader ends, if it is known: what only rows behind it need is not prepared. When `stop` is requested, the
  /// rows that are being read are no longer needed, and read_training() may throw anything.
  virtual void begin_stream(std::optional<int64_t> /*end*/, const std::stop_token& /*stop*/) const {}

  /// True if row `row` of the stream of training begins an epoch whose examples are made anew, which may take a while.
  virtual bool begins_made_epoch(int64_t /*row*/) const { return false; }

  /// The bytes of memory that making the examples of a later epoch takes, while the one before it is read.
  virtual int64_t bytes_of_making_epochs() const { return 0; }
};

/// A source whose examples are held in memory.
class MemorySource final : public Source {
 public:
  /// values[f] holds feature f of all examples, row-major; all features have the same number of examples.
  MemorySource(std::vector<Feature> features, std::vector<std::vector<std::byte>> values);

  int64_t examples() const override { return examples_; }
  const std::vector<Feature>& features() const override { return features_; }
  void read(std::span<const int64_t> rows, std::span<const FeatureSlice> slices) const override;
  int64_t bytes_in_memory() const override;

 private:
  std::vector<Feature> features_;
  std::vector<std::vector<std::byte>> values_;
  int64_t examples_ = 0;
};

/// Features without examples, which suffice to build and explain graphs.
class DeclaredSource final : public Source {
 public:
  explicit DeclaredSource(std::vector<Feature> features) : features_(std::move(features)) {}

  /// Always 1; the true number is not known.
  int64_t examples() const override { return 1; }
  bool has_examples() const override { return false; }
  const std::vector<Feature>& features() const override { return features_; }
  /// Must not be called.
  void read(std::span<const int64_t> rows, std::span<const FeatureSlice> slices) const override;

 private:
  std::vector<Feature> features_;
};

template <class Use>
void for_each_run(const Shape& shape, const Box* box, const Use& use) {
  if (box == nullptr) return use(int64_t{0}, shape.size());
  // The dimensions that are whole at the end, and the one before them, are contiguous.
  int outer = shape.rank();
  int64_t run = 1;
  while (outer > 0 && box->shape[outer - 1].size == shape[outer - 1].size) run *= shape[--outer].size;
  if (outer > 0) run *= box->shape[--outer].size;
  const int64_t runs = box->shape.size() / run;
  for (int64_t i = 0; i < runs; ++i) {
    int64_t first = 0, stride = 1, rest = i;
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      int64_t index = box->begin[axis];
      if (axis < outer) {
        index += rest % box->shape[axis].size;
        rest /= box->shape[axis].size;
      }
      first += index * stride;
      stride *= shape[axis].size;
    }
    use(first, run);
  }
}

}  // namespace mtf
