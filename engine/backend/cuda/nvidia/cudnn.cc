// Attention by cuDNN. The engine is the first that the library's heuristic names and that supports the graph.
#include "engine/backend/cuda/nvidia/cudnn.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <map>
#include <mutex>
#include <utility>

#include "engine/backend/cuda/nvidia/cudnn_attention.h"
#include "engine/base/error.h"
#include "engine/base/integer_division.h"

namespace mtf::cuda {
namespace {

using cudnn::AttentionGraph;

/// The first version whose gradient is sound on every architecture: that of 9.10.0 and 9.10.1 is not.
constexpr size_t kLeastVersion = 91002;
constexpr int64_t kWorkspaceAlignment = 256;

/// cuDNN with a handle for the thread's device.
class Library {
 public:
  Library() : functions_(CUDART_VERSION / 1000) {
    if (functions_.version() < kLeastVersion) {
      throw Error(ErrorKind::kSystem,
                  fmt::format("{} is too old for attention: {} is the least", version(), text(kLeastVersion)),
                  fmt::format("pip install --upgrade nvidia-cudnn-cu{}", CUDART_VERSION / 1000));
    }
    functions_.check(functions_.create_handle(&handle_), "opening the GPU");
  }
  ~Library() { functions_.destroy_handle(handle_); }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  const cudnn::Functions& functions() const { return functions_; }
  cudnn::Handle handle() const { return handle_; }
  /// Guards the stream of the handle.
  std::mutex& mutex() const { return mutex_; }
  std::string version() const { return "cudnn " + text(functions_.version()); }

 private:
  static std::string text(size_t version) {
    return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
  }

  cudnn::Functions functions_;
  cudnn::Handle handle_ = nullptr;
  mutable std::mutex mutex_;
};

class CudnnAttention final : public LibraryAttention {
 public:
  CudnnAttention(Device& device, std::shared_ptr<const Library> library, AttentionGraph graph,
                 std::unique_ptr<cudnn::Plan> plan, int64_t row_sums)
      : device_(device),
        library_(std::move(library)),
        graph_(std::move(graph)),
        plan_(std::move(plan)),
        row_sum_bytes_(round_up(row_sums * static_cast<int64_t>(sizeof(float)), kWorkspaceAlignment)),
        bytes_(kWorkspaceAlignment + row_sum_bytes_ + plan_->workspace_bytes()) {}
  int64_t workspace_bytes() const override { return bytes_; }
  void run(const LibraryAttentionOperands& operands, std::byte* workspace) const override {
    const auto begin = reinterpret_cast<intptr_t>(workspace);
    workspace += round_up(begin, kWorkspaceAlignment) - begin;
    const cudnn::Addresses addresses = graph_.addresses(operands, reinterpret_cast<float*>(workspace));
    const Stream stream = device_.compute();
    const cudnn::Functions& functions = library_->functions();
    const std::lock_guard lock(library_->mutex());
    functions.check(functions.set_stream(library_->handle(), stream.handle), "choosing a stream");
    cudnn::execute(functions, library_->handle(), *plan_, addresses, workspace + row_sum_bytes_);
  }

 private:
  Device& device_;
  std::shared_ptr<const Library> library_;
  AttentionGraph graph_;
  std::unique_ptr<cudnn::Plan> plan_;
  int64_t row_sum_bytes_, bytes_;
};

class CudnnLibrary final : public AttentionLibrary {
 public:
  explicit CudnnLibrary(Device& device) : device_(device), library_(std::make_shared<const Library>()) {}

  std::string version() const override { return library_->version(); }
  std::shared_ptr<const LibraryAttention> prepare(const LibraryAttentionProblem& problem) override {
    const std::lock_guard lock(mutex_);
    const auto [found, is_new] = plans_.try_emplace(problem);
    if (is_new) found->second = make(problem);
    return found->second;
  }

 private:
  std::shared_ptr<const LibraryAttention> make(const LibraryAttentionProblem& problem) const {
    const cudnn::Target target{.handle = library_->handle()};
    try {
      AttentionGraph attention(library_->functions(), problem);
      attention.graph().finish(target);
      std::unique_ptr<cudnn::Plan> plan = attention.graph().plan(target);
      if (plan == nullptr) return nullptr;
      const int64_t row_sums = problem.gradient ? problem.batch * problem.heads * problem.queries : 0;
      return std::make_shared<const CudnnAttention>(device_, library_, std::move(attention), std::move(plan),
                                                    row_sums);
    } catch (const Error& error) {
      device_.note({true, error.problems().front().message});
      return nullptr;
    }
  }

  Device& device_;
  std::shared_ptr<const Library> library_;
  std::mutex mutex_;  ///< guards the plans
  std::map<LibraryAttentionProblem, std::shared_ptr<const LibraryAttention>> plans_;
};

}  // namespace

std::unique_ptr<AttentionLibrary> open_cudnn(Device& device) {
  return std::make_unique<CudnnLibrary>(device);
}

}  // namespace mtf::cuda
