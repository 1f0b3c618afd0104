// Products by cuBLASLt. The algorithm is the first that the library's heuristic names, which depends on the
// problem, the device and the library's version; or, with MatmulLibrary::tune(), one that is recorded.
#include "engine/backend/cuda/nvidia/cublaslt.h"

#include <cublasLt.h>
#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/backend/cuda/contractions/matmul_plan.h"
#include "engine/backend/cuda/nvidia/shared_library.h"
#include "engine/base/check.h"
#include "engine/base/error.h"

namespace mtf::cuda {
namespace {

struct Functions {
  const SharedLibrary library{fmt::format("libcublasLt.so.{}", CUBLAS_VER_MAJOR), "cublas",
                              CUDART_VERSION / 1000};

  void check(cublasStatus_t status, std::string_view doing) const {
    if (status != CUBLAS_STATUS_SUCCESS) fail(status, doing);
  }
  [[noreturn]] void fail(cublasStatus_t status, std::string_view doing) const {
    throw Error(status == CUBLAS_STATUS_ALLOC_FAILED ? ErrorKind::kMemory : ErrorKind::kSystem,
                fmt::format("cuBLASLt, {}: {}", doing, status_text(status)));
  }

  LibraryFunction<decltype(cublasLtGetVersion)> version{library, "cublasLtGetVersion"};
  LibraryFunction<decltype(cublasLtGetStatusString)> status_text{library, "cublasLtGetStatusString"};
  LibraryFunction<decltype(cublasLtCreate)> create{library, "cublasLtCreate"};
  LibraryFunction<decltype(cublasLtDestroy)> destroy{library, "cublasLtDestroy"};
  LibraryFunction<decltype(cublasLtMatmulDescCreate)> create_operation{library, "cublasLtMatmulDescCreate"};
  LibraryFunction<decltype(cublasLtMatmulDescDestroy)> destroy_operation{library,
                                                                         "cublasLtMatmulDescDestroy"};
  LibraryFunction<decltype(cublasLtMatmulDescSetAttribute)> set_operation{library,
                                                                          "cublasLtMatmulDescSetAttribute"};
  LibraryFunction<decltype(cublasLtMatrixLayoutCreate)> create_layout{library, "cublasLtMatrixLayoutCreate"};
  LibraryFunction<decltype(cublasLtMatrixLayoutDestroy)> destroy_layout{library,
                                                                        "cublasLtMatrixLayoutDestroy"};
  LibraryFunction<decltype(cublasLtMatrixLayoutSetAttribute)> set_layout{library,
                                                                         "cublasLtMatrixLayoutSetAttribute"};
  LibraryFunction<decltype(cublasLtMatmulPreferenceCreate)> create_preference{
      library, "cublasLtMatmulPreferenceCreate"};
  LibraryFunction<decltype(cublasLtMatmulPreferenceDestroy)> destroy_preference{
      library, "cublasLtMatmulPreferenceDestroy"};
  LibraryFunction<decltype(cublasLtMatmulPreferenceSetAttribute)> set_preference{
      library, "cublasLtMatmulPreferenceSetAttribute"};
  LibraryFunction<decltype(cublasLtMatmulAlgoGetHeuristic)> heuristic{library,
                                                                      "cublasLtMatmulAlgoGetHeuristic"};
  LibraryFunction<decltype(cublasLtMatmul)> matmul{library, "cublasLtMatmul"};
};

/// The library with its state for one device.
class Handle {
 public:
  Handle() { functions_.check(functions_.create(&handle_), "starting"); }
  ~Handle() { functions_.destroy(handle_); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  const Functions* operator->() const { return &functions_; }
  cublasLtHandle_t get() const { return handle_; }

 private:
  Functions functions_;
  cublasLtHandle_t handle_ = nullptr;
};

template <class Opaque>
using Descriptor = std::unique_ptr<Opaque, cublasStatus_t (*)(Opaque*)>;
using Operation = Descriptor<cublasLtMatmulDescOpaque_t>;
using Layout = Descriptor<cublasLtMatrixLayoutOpaque_t>;
using Preference = Descriptor<cublasLtMatmulPreferenceOpaque_t>;

cudaDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return CUDA_R_32F;
    case DType::kBFloat16:
      return CUDA_R_16BF;
    case DType::kFloat64:
      return CUDA_R_64F;
    default:
      MTF_CHECK(false, "a product of {}", name_of(dtype));
  }
}

cublasLtEpilogue_t epilogue_of(const MatmulProblem& problem) {
  switch (problem.epilogue) {
    case Epilogue::kNone:
      return problem.bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    case Epilogue::kGelu:
      return problem.bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    case Epilogue::kRelu:
      return problem.bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
  }
  MTF_CHECK(false, "unknown epilogue");
}

template <class Value>
void set(const Handle& library, const Operation& operation, cublasLtMatmulDescAttributes_t attribute,
         Value value) {
  library->check(library->set_operation(operation.get(), attribute, &value, sizeof(value)),
                 "describing a product");
}

cublasComputeType_t compute_type_of(const MatmulProblem& problem) {
  if (problem.input == DType::kFloat64) return CUBLAS_COMPUTE_64F;
  switch (problem.precision) {
    case MatmulPrecision::kTf32:
      return CUBLAS_COMPUTE_32F_FAST_TF32;
    case MatmulPrecision::kBFloat16:
      return CUBLAS_COMPUTE_32F_FAST_16BF;
    case MatmulPrecision::kFull:
      break;
  }
  return CUBLAS_COMPUTE_32F;
}

Operation make_operation(const Handle& library, const MatmulProblem& problem,
                         const ColumnMajorProblem& matrices) {
  const cudaDataType_t scale = problem.input == DType::kFloat64 ? CUDA_R_64F : CUDA_R_32F;
  cublasLtMatmulDesc_t created = nullptr;
  library->check(library->create_operation(&created, compute_type_of(problem), scale),
                 "describing a product");
  Operation operation(created, library->destroy_operation);
  const auto transposed = [](bool transpose) {
    return static_cast<int32_t>(transpose ? CUBLAS_OP_T : CUBLAS_OP_N);
  };
  set(library, operation, CUBLASLT_MATMUL_DESC_TRANSA, transposed(matrices.first.transpose));
  set(library, operation, CUBLASLT_MATMUL_DESC_TRANSB, transposed(matrices.second.transpose));
  set(library, operation, CUBLASLT_MATMUL_DESC_EPILOGUE, static_cast<uint32_t>(epilogue_of(problem)));
  if (problem.bias) {
    set(library, operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE,
        static_cast<int32_t>(type_of(problem.output)));
    // The heuristic uses only the alignment of this address.
    set(library, operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, reinterpret_cast<const void*>(kBiasAlignment));
  }
  return operation;
}

Layout make_layout(const Handle& library, const ColumnMajorMatrix& matrix, DType dtype, int64_t batch) {
  cublasLtMatrixLayout_t layout = nullptr;
  library->check(library->create_layout(&layout, type_of(dtype), static_cast<uint64_t>(matrix.rows),
                                        static_cast<uint64_t>(matrix.columns), matrix.leading),
                 "describing a matrix");
  Layout result(layout, library->destroy_layout);
  const auto set = [&](cublasLtMatrixLayoutAttribute_t attribute, auto value) {
    library->check(library->set_layout(layout, attribute, &value, sizeof(value)), "describing a matrix");
  };
  set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<int32_t>(batch));
  set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, matrix.batch_stride);
  return result;
}

/// The summed dimension may be split only if the parts are added in a separate step, in the compute type:
/// there are no atomic additions, and parts are not rounded to bfloat16. It is not split where an epilogue
/// follows, which would be applied to sums that are rounded to bfloat16.
Preference make_preference(const Handle& library, const MatmulProblem& problem,
                           const ColumnMajorProblem& matrices, uint64_t workspace) {
  const bool finishes_rounded =
      problem.output == DType::kBFloat16 && (problem.bias || problem.epilogue != Epilogue::kNone);
  cublasLtMatmulPreference_t preference = nullptr;
  library->check(library->create_preference(&preference), "choosing an algorithm");
  Preference result(preference, library->destroy_preference);
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    library->check(library->set_preference(preference, attribute, &value, sizeof(value)),
                   "choosing an algorithm");
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace);
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      uint32_t{finishes_rounded ? CUBLASLT_REDUCTION_SCHEME_NONE : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, static_cast<uint32_t>(matrices.first.alignment));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, static_cast<uint32_t>(matrices.second.alignment));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, static_cast<uint32_t>(matrices.output.alignment));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, static_cast<uint32_t>(matrices.output.alignment));
  return result;
}

/// The product of as many matrices of a batch as one call multiplies.
class Part {
 public:
  /// With algorithm number `index` of those that the heuristic names.
  Part(const Handle& library, const MatmulPart& part, uint64_t workspace, int index)
      : begin_(part.begin),
        matrices_(column_major(part.problem)),
        operation_(make_operation(library, part.problem, matrices_)),
        first_(make_layout(library, matrices_.first, part.problem.input, part.problem.batch)),
        second_(make_layout(library, matrices_.second, part.problem.input, part.problem.batch)),
        output_(make_layout(library, matrices_.output, part.problem.output, part.problem.batch)) {
    const Preference preference = make_preference(library, part.problem, matrices_, workspace);
    std::vector<cublasLtMatmulHeuristicResult_t> found(static_cast<size_t>(index) + 1);
    int count = 0;
    const cublasStatus_t status = library->heuristic(
        library.get(), operation_.get(), first_.get(), second_.get(), output_.get(), output_.get(),
        preference.get(), static_cast<int>(found.size()), found.data(), &count);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) return;
    library->check(status, "choosing an algorithm for " + text(part.problem));
    is_supported_ = count > index && found.back().state == CUBLAS_STATUS_SUCCESS;
    algorithm_ = found.back().algo;
    workspace_bytes_ = found.back().workspaceSize;
  }

  /// False if there is no such algorithm; the part is then of no use.
  bool is_supported() const { return is_supported_; }
  size_t workspace_bytes() const { return workspace_bytes_; }
  const Operation& operation() const { return operation_; }

  void run(const Handle& library, const MatmulProblem& problem, const void* a, const void* b, void* c,
           const void* addend, void* workspace, Stream stream) const {
    const auto input = static_cast<int64_t>(size_of(problem.input));
    const auto output = static_cast<int64_t>(size_of(problem.output));
    const std::byte* first = static_cast<const std::byte*>(b) + begin_ * problem.batch_b * input;
    const std::byte* second = static_cast<const std::byte*>(a) + begin_ * problem.batch_a * input;
    std::byte* result = static_cast<std::byte*>(c) + begin_ * problem.batch_c * output;
    const std::byte* added = static_cast<const std::byte*>(addend) + begin_ * problem.batch_c * output;
    const bool wide = problem.input == DType::kFloat64;
    const double one64 = 1, zero64 = 0;
    const float one = 1, zero = 0;
    const auto scale = [&](bool on) -> const void* {
      return wide ? static_cast<const void*>(on ? &one64 : &zero64)
                  : static_cast<const void*>(on ? &one : &zero);
    };
    const cublasStatus_t status =
        library->matmul(library.get(), operation_.get(), scale(true), first, first_.get(), second,
                        second_.get(), scale(problem.accumulate), added, output_.get(), result, output_.get(),
                        &algorithm_, workspace, workspace_bytes_, static_cast<cudaStream_t>(stream.handle));
    if (status != CUBLAS_STATUS_SUCCESS) library->fail(status, "multiplying " + text(problem));
  }

 private:
  int64_t begin_;
  ColumnMajorProblem matrices_;
  Operation operation_;
  Layout first_, second_, output_;
  bool is_supported_ = false;
  cublasLtMatmulAlgo_t algorithm_{};
  size_t workspace_bytes_ = 0;
};

class Plan final : public Matmul {
 public:
  Plan(Device& device, std::shared_ptr<const Handle> library, const MatmulProblem& problem,
       uint64_t workspace, int index)
      : device_(device), library_(std::move(library)), problem_(problem) {
    for (const MatmulPart& part : parts_of(problem)) parts_.emplace_back(*library_, part, workspace, index);
  }
  bool is_supported() const { return std::ranges::all_of(parts_, &Part::is_supported); }
  int64_t workspace_bytes() const override {
    size_t bytes = 0;
    for (const Part& part : parts_) bytes = std::max(bytes, part.workspace_bytes());
    return static_cast<int64_t>(bytes);
  }
  void run(const void* a, const void* b, void* c, void* workspace, const void* bias,
           const void* addend) const override {
    MTF_CHECK((bias != nullptr) == problem_.bias, "a bias, or none");
    if (addend == nullptr) addend = c;
    const std::lock_guard lock(mutex_);
    const Stream stream = device_.compute();
    for (const Part& part : parts_) {
      if (problem_.bias) set(*library_, part.operation(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
      part.run(*library_, problem_, a, b, c, addend, workspace, stream);
    }
  }

 private:
  Device& device_;
  std::shared_ptr<const Handle> library_;
  MatmulProblem problem_;
  std::vector<Part> parts_;
  mutable std::mutex mutex_;  ///< guards the address of the bias in the parts
};

class CublasLt final : public MatmulLibrary {
 public:
  explicit CublasLt(Device& device)
      : device_(device), library_(std::make_shared<const Handle>()), plans_(device) {}

  std::string version() const override {
    const size_t version = (*library_)->version();
    return fmt::format("cublaslt {}.{}.{}{}", version / 10000, version / 100 % 100, version % 100,
                       library_environment());
  }
  void tune(TuningRecord& record) override { plans_.tune(record); }
  std::shared_ptr<const Matmul> prepare(const MatmulProblem& problem) override {
    // The size that NVIDIA recommends: Hopper's kernels make use of more.
    const uint64_t workspace = device_.info().major >= 9 ? 32 << 20 : 4 << 20;
    return plans_.find_or_make(problem, [&](const MatmulProblem& canonical, int most) {
      std::vector<std::shared_ptr<const Matmul>> plans;
      for (int index = 0; index < most; ++index) {
        auto plan = std::make_shared<const Plan>(device_, library_, canonical, workspace, index);
        if (!plan->is_supported()) break;
        plans.push_back(std::move(plan));
      }
      return plans;
    });
  }

 private:
  Device& device_;
  std::shared_ptr<const Handle> library_;
  MatmulCache plans_;
};

}  // namespace

std::unique_ptr<MatmulLibrary> open_cublaslt(Device& device) { return std::make_unique<CublasLt>(device); }

}  // namespace mtf::cuda
