// The part of cuDNN's backend interface that is used here, unchanged since cuDNN 9.0, so that a build needs
// no headers of cuDNN. Everything is a descriptor with numbered attributes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/backend/cuda/nvidia/shared_library.h"

struct cudnnContext;

namespace mtf::cuda::cudnn {

using Handle = cudnnContext*;

enum class DataType : int { kFloat = 0, kInt32 = 4, kBFloat16 = 9, kBoolean = 11 };

enum class Pointwise : int {
  kAdd = 0,
  kMultiply = 1,
  kDivide = 6,
  kSubtract = 9,
  kExp = 13,
  kLog = 15,
  kGreaterOrEqual = 303,
  kIndex = 501,
  kSelect = 601,
};

enum class Reduction : int { kAdd = 0, kMax = 3 };

/// An order in which the library proposes engines.
enum class Heuristic : int { kBest = 3 };

enum class Kind : int {
  kPointwise = 0,
  kEngineConfiguration = 3,
  kEngineHeuristic = 4,
  kExecutionPlan = 5,
  kPointwiseOperation = 13,
  kOperationGraph = 15,
  kVariantPack = 16,
  kTensor = 17,
  kMatmul = 18,
  kMatmulOperation = 19,
  kReduction = 21,
  kReductionOperation = 22,
  kReshapeOperation = 31,
  kDeviceProperties = 38,
};

enum class Attribute : int {
  kPointwiseMode = 0,
  kPointwisePrecision = 1,
  kPointwiseAxis = 9,
  kHeuristicMode = 200,
  kHeuristicGraph = 201,
  kHeuristicResults = 202,
  kHeuristicDevice = 204,
  kPlanHandle = 400,
  kPlanConfiguration = 401,
  kPlanWorkspace = 402,
  kPlanDevice = 407,
  kPointwiseDescriptor = 750,
  kPointwiseX = 751,
  kPointwiseB = 752,
  kPointwiseY = 753,
  kPointwiseCondition = 758,
  kGraphHandle = 800,
  kGraphOperations = 801,
  kTensorAlignment = 900,
  kTensorType = 901,
  kTensorDimensions = 902,
  kTensorStrides = 903,
  kTensorId = 906,
  kTensorIsVirtual = 907,
  kTensorIsByValue = 908,
  kPackIds = 1000,
  kPackPointers = 1001,
  kPackWorkspace = 1003,
  kMatmulPrecision = 1500,
  kMatmulA = 1520,
  kMatmulB = 1521,
  kMatmulC = 1522,
  kMatmulDescriptor = 1523,
  kReductionOperator = 1600,
  kReductionPrecision = 1601,
  kReductionX = 1610,
  kReductionY = 1611,
  kReductionDescriptor = 1612,
  kReshapeX = 2200,
  kReshapeY = 2201,
  kDeviceJson = 2702,
};

/// The number of an attribute's element type.
template <class T>
inline constexpr int kTypeOf = -1;
template <>
inline constexpr int kTypeOf<Handle> = 0;
template <>
inline constexpr int kTypeOf<DataType> = 1;
template <>
inline constexpr int kTypeOf<bool> = 2;
template <>
inline constexpr int kTypeOf<int64_t> = 3;
template <>
inline constexpr int kTypeOf<void*> = 6;
template <>
inline constexpr int kTypeOf<Heuristic> = 8;
template <>
inline constexpr int kTypeOf<Pointwise> = 14;
inline constexpr int kDescriptorType = 15;
template <>
inline constexpr int kTypeOf<Reduction> = 18;
template <>
inline constexpr int kTypeOf<char> = 24;

/// cuDNN 9, loaded.
struct Functions {
  /// `cuda` is CUDA's major version, which selects the package. Throws Error (kSystem) if it is missing.
  explicit Functions(int cuda) : library("libcudnn.so.9", "cudnn", cuda) {}

  /// Throws Error (kSystem) with the library's reason.
  void check(int status, std::string_view doing) const;
  /// The reason why the thread's last call failed.
  std::string last_error() const;

  const SharedLibrary library;
  LibraryFunction<size_t()> version{library, "cudnnGetVersion"};
  LibraryFunction<const char*(int status)> status_text{library, "cudnnGetErrorString"};
  LibraryFunction<void(char* text, size_t size)> last_error_text{library, "cudnnGetLastErrorString"};
  LibraryFunction<int(Handle* handle)> create_handle{library, "cudnnCreate"};
  LibraryFunction<int(Handle handle)> destroy_handle{library, "cudnnDestroy"};
  LibraryFunction<int(Handle handle, void* stream)> set_stream{library, "cudnnSetStream"};
  LibraryFunction<int(int kind, void** descriptor)> create{library, "cudnnBackendCreateDescriptor"};
  LibraryFunction<int(void* descriptor)> destroy{library, "cudnnBackendDestroyDescriptor"};
  LibraryFunction<int(void* descriptor)> finalize{library, "cudnnBackendFinalize"};
  LibraryFunction<int(void* descriptor, int attribute, int type, int64_t count, const void* values)> set{
      library, "cudnnBackendSetAttribute"};
  LibraryFunction<int(void* descriptor, int attribute, int type, int64_t most, int64_t* count, void* values)>
      get{library, "cudnnBackendGetAttribute"};
  LibraryFunction<int(Handle handle, void* plan, void* pack)> execute{library, "cudnnBackendExecute"};
};

/// Calls throw Error (kSystem) if the library refuses.
class Descriptor {
 public:
  Descriptor(const Functions& cudnn, Kind kind) : cudnn_(&cudnn) {
    cudnn.check(cudnn.create(static_cast<int>(kind), &handle_), "making a descriptor");
  }
  ~Descriptor() {
    if (handle_ != nullptr) cudnn_->destroy(handle_);
  }
  Descriptor(Descriptor&& other) noexcept
      : cudnn_(other.cudnn_), handle_(std::exchange(other.handle_, nullptr)) {}
  Descriptor& operator=(Descriptor&&) = delete;

  template <class T>
  Descriptor& set(Attribute attribute, const T& value) {
    return set_all(attribute, kTypeOf<T>, 1, &value);
  }
  template <class T>
  Descriptor& set(Attribute attribute, const std::vector<T>& values) {
    return set_all(attribute, kTypeOf<T>, static_cast<int64_t>(values.size()), values.data());
  }
  Descriptor& set(Attribute attribute, const Descriptor& value) {
    return set_all(attribute, kDescriptorType, 1, &value.handle_);
  }
  Descriptor& set(Attribute attribute, const std::vector<Descriptor>& values);
  Descriptor& set(Attribute attribute, std::string_view text) {
    return set_all(attribute, kTypeOf<char>, static_cast<int64_t>(text.size()), text.data());
  }
  /// Makes it what its attributes say.
  Descriptor& finalize() {
    cudnn_->check(try_to_finalize(), "finalizing a descriptor");
    return *this;
  }
  /// Returns the status.
  int try_to_finalize() { return cudnn_->finalize(handle_); }

  /// Up to `most` elements of an attribute.
  template <class T>
  std::vector<T> get(Attribute attribute, int64_t most) const {
    std::vector<T> values(static_cast<size_t>(most));
    values.resize(static_cast<size_t>(get_all(attribute, kTypeOf<T>, most, values.data())));
    return values;
  }
  /// Descriptors of a kind.
  std::vector<Descriptor> get(Attribute attribute, Kind kind) const;

  void* handle() const { return handle_; }

 private:
  Descriptor& set_all(Attribute attribute, int type, int64_t count, const void* values);
  /// Returns the number of elements.
  int64_t get_all(Attribute attribute, int type, int64_t most, void* values) const;

  const Functions* cudnn_;
  void* handle_ = nullptr;
};

}  // namespace mtf::cuda::cudnn
