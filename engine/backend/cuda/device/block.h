// Block is a kernel's view of the threads that run it. Kernels are function objects over a Block. nvcc
// compiles them for a GPU; the host's compiler compiles the same text for the emulator (tests/emulated_gpu),
// which runs them thread by thread, checks barriers and lets sanitizers look at every access.
//
//   struct RowSum {
//     const float* x;
//     float* y;
//     int64_t n;
//     MTF_DEVICE void operator()(const Block& block) const {       // one block for each row
//       float sum = 0;
//       for (int64_t i = block.thread(); i < n; i += block.threads()) sum += x[block.index() * n + i];
//       sum = reduce_block(block, sum, Sum{}, block.shared<float>());
//       if (block.thread() == 0) y[block.index()] = sum;
//     }
//   };
//
// Rules: A block has whole warps. Every thread of a block reaches every barrier, and every lane of a warp
// every exchange. There are no static variables, and threads share only the memory of block.shared().
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#if defined(__CUDACC__)
#define MTF_DEVICE __device__ __forceinline__
#define MTF_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define MTF_DEVICE inline
#define MTF_HOST_DEVICE inline
#endif

#define MTF_PRAGMA(text) _Pragma(#text)
/// Placed before a loop over the elements of an array: unrolls it, so that the array is in registers.
#if defined(__CUDA_ARCH__)
#define MTF_UNROLL(count) MTF_PRAGMA(unroll count)
#else
#define MTF_UNROLL(count)
#endif

namespace mtf::cuda {

/// The number of threads that run in lockstep and exchange registers.
inline constexpr int kWarp = 32;

#if defined(__CUDACC__)

class Block {
 public:
  MTF_DEVICE Block() : index_(blockIdx.x), blocks_(gridDim.x) {}
  MTF_DEVICE int thread() const { return static_cast<int>(threadIdx.x); }
  MTF_DEVICE int threads() const { return static_cast<int>(blockDim.x); }
  MTF_DEVICE void sync() const { __syncthreads(); }
  MTF_DEVICE void sync_warp() const { __syncwarp(); }
  /// shuffle() and shuffle_xor() return the value of another lane.
  template <class T>
  MTF_DEVICE T shuffle(T value, int lane) const {
    return __shfl_sync(0xffffffffu, value, lane);
  }
  template <class T>
  MTF_DEVICE T shuffle_xor(T value, int mask) const {
    return __shfl_xor_sync(0xffffffffu, value, mask);
  }
  /// Bit i of the result is the value of lane i.
  MTF_DEVICE uint32_t ballot(bool value) const { return __ballot_sync(0xffffffffu, value); }
  /// The memory that the threads of a block share; 16-byte aligned, of LaunchShape::shared_bytes bytes.
  template <class T>
  MTF_DEVICE T* shared(int64_t byte_offset = 0) const {
    extern __shared__ __align__(16) unsigned char memory[];
    return reinterpret_cast<T*>(memory + byte_offset);
  }

#else

namespace emulator {
void sync_block();
void sync_warp();
/// Copies the `bytes` bytes that lane `lane` of the warp passes in the same call.
void exchange(const void* mine, size_t bytes, int lane, void* result);
/// The bytes that a lane passes in an exchange.
struct LaneSlot {
  alignas(16) std::byte bytes[32];
};
/// The slots of all lanes of the warp; they live until this lane's next call.
const LaneSlot* exchange_all(const void* mine, size_t bytes);
uint32_t ballot(bool value);

/// The values of a type that all lanes of the warp pass in the same call; they live until this lane's next exchange.
template <class T>
class Exchanged {
 public:
  explicit Exchanged(const T& mine) : slots_(exchange_all(&mine, sizeof(T))) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(LaneSlot) &&
                  alignof(T) <= alignof(LaneSlot));
  }
  const T& operator[](int lane) const { return *reinterpret_cast<const T*>(slots_[lane].bytes); }

 private:
  const LaneSlot* slots_;
};
}  // namespace emulator

class Block {
 public:
  Block(int64_t index, int64_t blocks, int thread, int threads, unsigned char* shared)
      : index_(index), blocks_(blocks), thread_(thread), threads_(threads), shared_(shared) {}
  int thread() const { return thread_; }
  int threads() const { return threads_; }
  void sync() const { emulator::sync_block(); }
  void sync_warp() const { emulator::sync_warp(); }
  template <class T>
  T shuffle(T value, int lane) const {
    T result;
    emulator::exchange(&value, sizeof(T), lane % kWarp, &result);
    return result;
  }
  template <class T>
  T shuffle_xor(T value, int mask) const {
    return shuffle(value, this->lane() ^ mask);
  }
  uint32_t ballot(bool value) const { return emulator::ballot(value); }
  template <class T>
  T* shared(int64_t byte_offset = 0) const {
    return reinterpret_cast<T*>(shared_ + byte_offset);
  }

#endif

  MTF_DEVICE int64_t index() const { return index_; }
  MTF_DEVICE int64_t blocks() const { return blocks_; }
  /// The same threads, seen as block `index` of a grid of `blocks` blocks.
  MTF_DEVICE Block as(int64_t index, int64_t blocks) const {
    Block block = *this;
    block.index_ = index;
    block.blocks_ = blocks;
    return block;
  }
  MTF_DEVICE int lane() const { return thread() % kWarp; }
  MTF_DEVICE int warp() const { return thread() / kWarp; }
  MTF_DEVICE int warps() const { return threads() / kWarp; }
  /// first() is this thread's number in the whole grid, stride() the number of its threads: for loops over
  /// elements.
  MTF_DEVICE int64_t first() const { return index() * threads() + thread(); }
  MTF_DEVICE int64_t stride() const { return blocks() * threads(); }

 private:
  int64_t index_, blocks_;
#if !defined(__CUDACC__)
  int thread_, threads_;
  unsigned char* shared_;
#endif
};

MTF_DEVICE int count_bits(uint32_t bits) {
#if defined(__CUDACC__)
  return __popc(bits);
#else
  return __builtin_popcount(bits);
#endif
}

struct Sum {
  template <class T>
  MTF_HOST_DEVICE T operator()(T a, T b) const {
    return a + b;
  }
};
/// Max and Min give NaN if either argument is NaN.
struct Max {
  template <class T>
  MTF_HOST_DEVICE T operator()(T a, T b) const {
    return a > b || a != a ? a : b;
  }
};
struct Min {
  template <class T>
  MTF_HOST_DEVICE T operator()(T a, T b) const {
    return a < b || a != a ? a : b;
  }
};

/// Combines the values of the lanes of a warp in a fixed order; every lane gets the result. `combine` must be
/// commutative, so that all lanes get the same bits.
template <class T, class Combine>
MTF_DEVICE T reduce_warp(const Block& block, T value, Combine combine) {
  for (int mask = kWarp / 2; mask > 0; mask /= 2) value = combine(value, block.shuffle_xor(value, mask));
  return value;
}

/// Combines the values of all threads of a block; every thread gets the result. `shared` has one T for each
/// warp and may be used again after the call.
template <class T, class Combine>
MTF_DEVICE T reduce_block(const Block& block, T value, Combine combine, T* shared) {
  value = reduce_warp(block, value, combine);
  if (block.warps() == 1) return value;
  if (block.lane() == 0) shared[block.warp()] = value;
  block.sync();
  value = shared[0];
  for (int warp = 1; warp < block.warps(); ++warp) value = combine(value, shared[warp]);
  block.sync();
  return value;
}

}  // namespace mtf::cuda
