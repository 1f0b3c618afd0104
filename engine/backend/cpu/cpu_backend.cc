#include <fmt/format.h>
#include <pmmintrin.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "engine/backend/backend.h"
#include "engine/backend/cpu/contractions/joint_products.h"
#include "engine/backend/cpu/registry/kernel_registry.h"
#include "engine/backend/element.h"
#include "engine/base/error.h"
#include "engine/base/instruction_set.h"

namespace mtf {
namespace {

/// Pages directly from the operating system, which are zeroed and take memory only when touched: huge ones where it has them,
/// since misses of the TLB cost much in virtual machines.
class Pages final : public DeviceMemory {
 public:
  explicit Pages(int64_t bytes) : bytes_(static_cast<size_t>(std::max<int64_t>(bytes, 64))) {
    void* pages = allocate(bytes_);
    if (!pages) {
      throw Error(ErrorKind::kMemory, "cannot get " + std::to_string(bytes_) + " bytes of memory",
                  "use smaller batches, `train.microbatches`, or split more dimensions");
    }
    data_ = static_cast<std::byte*>(pages);
  }
  ~Pages() override { free(data_, bytes_); }
  std::byte* data() override { return data_; }

 private:
#ifdef __SANITIZE_ADDRESS__
  // AddressSanitizer knows the ends of what malloc() has returned.
  static void* allocate(size_t bytes) {
    constexpr size_t kPage = 4096;
    void* memory = nullptr;
    if (posix_memalign(&memory, kPage, bytes) != 0) return nullptr;
    std::memset(memory, 0, bytes);
    return memory;
  }
  static void free(void* memory, size_t) { std::free(memory); }
#else
  /// Zeros, which take no memory until they are written. Null if there are none.
  static void* allocate(size_t bytes) {
    void* memory =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
    madvise(memory, bytes, MADV_HUGEPAGE);  // if refused, pages are small
    return memory;
  }
  static void free(void* memory, size_t bytes) { munmap(memory, bytes); }
#endif

  size_t bytes_;
  std::byte* data_;
};

/// Copies within the memory of the host.
class MemoryCopy final : public HostCopy {
 public:
  explicit MemoryCopy(CopySources sources)
      : sources_(std::move(sources)), offsets_(packed_offsets(sources_)), memory_(offsets_.back()) {}
  void begin() override {
    for (size_t i = 0; i < sources_.size(); ++i)
      std::memcpy(memory_.data() + offsets_[i], sources_[i].data(), sources_[i].size());
  }
  void hold_back() override {}
  void wait() override {}
  const std::byte* part(size_t source) const override { return memory_.data() + offsets_[source]; }

 private:
  const CopySources sources_;
  const std::vector<int64_t> offsets_;
  mutable Pages memory_;
};

/// A kernel that copies rows of `length` bytes from from(row) to to(row).
template <class From, class To>
std::unique_ptr<Kernel> copy_rows(int64_t rows, int64_t length, From from, To to) {
  return make_kernel(rows, std::max<int64_t>(1, (1 << 17) / std::max<int64_t>(1, length)),
                     [=](const KernelCall& call, int64_t begin, int64_t end) {
                       for (int64_t row = begin; row < end; ++row) {
                         std::memcpy(call.outputs[0].data + to(call, row),
                                     call.inputs[0].data + from(call, row), static_cast<size_t>(length));
                       }
                     });
}

std::unique_ptr<Kernel> prepare_slice(const Move& move) {
  const int axis = move.dimension;
  const int64_t inner = move.output.local.strides()[axis] * static_cast<int64_t>(size_of(move.output.dtype));
  const int64_t part = move.output.local[axis].size * inner, whole = move.input.local[axis].size * inner;
  const int64_t rows = bytes_of(move.output.local, move.output.dtype) / part;
  return copy_rows(
      rows, part,
      [=](const KernelCall& call, int64_t row) {
        return row * whole + (call.outputs[0].begin[axis] - call.inputs[0].begin[axis]) * inner;
      },
      [=](const KernelCall&, int64_t row) { return row * part; });
}

std::unique_ptr<Kernel> prepare_place(const Move& move) {
  const int axis = move.dimension;
  const int64_t inner = move.input.local.strides()[axis] * static_cast<int64_t>(size_of(move.input.dtype));
  const int64_t rows = bytes_of(move.input.local, move.input.dtype) / inner;
  const int64_t count = move.count;
  return copy_rows(
      rows, inner, [=](const KernelCall&, int64_t row) { return row * inner; },
      [=](const KernelCall& call, int64_t row) { return (row * count + call.iteration) * inner; });
}

/// Copies are cut into tasks of this many bytes.
constexpr int64_t kCopyBytes = 1 << 17;

std::unique_ptr<Kernel> prepare_copy(const Move& move) {
  const int64_t bytes = bytes_of(move.output.local, move.output.dtype);
  return make_kernel(bytes, kCopyBytes, [](const KernelCall& call, int64_t begin, int64_t end) {
    std::memcpy(call.outputs[0].data + begin, call.inputs[0].data + begin, static_cast<size_t>(end - begin));
  });
}

template <class T>
std::unique_ptr<Kernel> prepare_accumulate(const Move& move) {
  return make_kernel(move.output.local.size(), kElementsPerTask,
                     [](const KernelCall& call, int64_t begin, int64_t end) {
                       const T* x = call.input<T>(0);
                       T* total = call.output<T>(0);
                       if (call.iteration == 0) {
                         std::copy(x + begin, x + end, total + begin);
                       } else {
                         for (int64_t i = begin; i < end; ++i)
                           total[i] = narrow<T>(widen(total[i]) + widen(x[i]));
                       }
                     });
}

class CpuBackend final : public Backend {
 public:
  std::unique_ptr<DeviceMemory> allocate(int64_t bytes) override { return std::make_unique<Pages>(bytes); }
  std::unique_ptr<Kernel> prepare(const KernelContext& context) override {
    return prepare_cpu_kernel(context);
  }
  std::unique_ptr<Kernel> prepare_joint(const KernelContext& context,
                                        const JointPositions& positions) override {
    return prepare_joint_product(context, positions);
  }
  std::unique_ptr<Kernel> prepare(const Move& move) override {
    switch (move.kind) {
      case Move::Kind::kSlice:
        return prepare_slice(move);
      case Move::Kind::kCopy:
        return prepare_copy(move);
      case Move::Kind::kPlace:
        return prepare_place(move);
      case Move::Kind::kAccumulate:
        break;
    }
    switch (move.output.dtype) {
      case DType::kFloat32:
        return prepare_accumulate<float>(move);
      case DType::kBFloat16:
        return prepare_accumulate<BFloat16>(move);
      case DType::kFloat64:
        return prepare_accumulate<double>(move);
      case DType::kInt32:
        return prepare_accumulate<int32_t>(move);
      case DType::kInt64:
        return prepare_accumulate<int64_t>(move);
      case DType::kBool:
      case DType::kInt8:
      case DType::kUInt8:
        break;
    }
    throw Error(ErrorKind::kConfig,
                fmt::format("a sum over microbatches of {} values", name_of(move.output.dtype)),
                "cast them to int32 first");
  }
  std::unique_ptr<PreparedCollective> prepare(const Collective& collective) override {
    return prepare_in_process(collective);
  }
  bool is_host() const override { return true; }
  void write(std::byte* to, const std::byte* from, int64_t bytes) override {
    std::memcpy(to, from, static_cast<size_t>(bytes));
  }
  void read(std::byte* to, const std::byte* from, int64_t bytes) override {
    std::memcpy(to, from, static_cast<size_t>(bytes));
  }
  void copy(std::byte* to, const std::byte* from, int64_t bytes) override {
    std::memcpy(to, from, static_cast<size_t>(bytes));
  }
  void copy_blocks(std::span<const BlockCopy> copies) override { copy_blocks_on_host(copies); }
  std::unique_ptr<BlockTransfer> make_block_transfer(std::byte*, int64_t) override { return nullptr; }
  std::unique_ptr<HostCopy> make_host_copy(CopySources sources, CopyOrder) override {
    return std::make_unique<MemoryCopy>(std::move(sources));
  }
  std::unique_ptr<Recording> record(const std::function<void()>&) override { return nullptr; }
  /// Masks exceptions, rounds to nearest and takes denormal numbers as zero, the same in every thread: Intel's processors
  /// are many times slower where they meet one, and the slots of weights without gradients decay to them.
  void prepare_thread() override { _mm_setcsr(0x1f80 | _MM_FLUSH_ZERO_ON | _MM_DENORMALS_ZERO_ON); }
  std::string instruction_set() const override { return std::string(name_of(mtf::instruction_set())); }
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend() { return std::make_unique<CpuBackend>(); }

}  // namespace mtf
