#include "tests/emulated_gpu/grid.h"

#include <cxxabi.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/check.h"
#include "tests/emulated_gpu/fiber.h"
#include "tests/emulated_gpu/shared_memory.h"

namespace mtf::cuda::emulator {
namespace {

/// The reason why a thread has stopped.
enum class Stop : uint8_t { kStart, kSync, kSyncWarp, kExchange, kEnd };

const char* words_for(Stop stop) {
  constexpr const char* kNames[] = {"has not begun", "waits at sync()", "waits at sync_warp()",
                                    "waits for an exchange", "has ended"};
  return kNames[static_cast<int>(stop)];
}

/// memcpy() without a function call for common sizes.
void copy_value(void* to, const void* from, size_t bytes) {
  switch (bytes) {
    case 4:
      std::memcpy(to, from, 4);
      break;
    case 8:
      std::memcpy(to, from, 8);
      break;
    case 16:
      std::memcpy(to, from, 16);
      break;
    case 24:
      std::memcpy(to, from, 24);
      break;
    default:
      std::memcpy(to, from, bytes);
  }
}

/// The fibers of a thread of the host, and the block that runs on them.
class Grid {
 public:
  void run(const LaunchShape& shape, const Body& body, uint64_t order);

  // The following functions are called on fibers. A processor predicts wrongly each return that follows a switch: what leads
  // to one is inlined.
  /// Stops the calling thread. Returns when the others have reached the same point.
  [[gnu::always_inline]] inline void stop(Stop why);
  using Slots = std::array<LaneSlot, kWarp>;
  /// The values passed by all lanes of the warp.
  [[gnu::always_inline]] inline const Slots& exchange(const void* mine, size_t bytes);

 private:
  struct Thread {
    Fiber* fiber = nullptr;  ///< fiber of a stopped thread
    Stop stop = Stop::kStart;
  };

  void choose_order(uint64_t order);
  void run_block();
  void run_warp(int warp);
  static void run_threads(void* grid) noexcept;  ///< main function of a fiber
  /// The fiber of the next lane of this round, or the host's after the last lane.
  [[gnu::always_inline]] inline Fiber& next();
  Fiber& free_fiber();
  [[gnu::always_inline]] inline void switch_to(Fiber& fiber);
  /// Records why the calling thread has stopped.
  [[gnu::always_inline]] inline void record(Fiber* fiber, Stop why);
  /// False if all threads have ended.
  bool all_at_sync() const;
  /// False if all lanes have reached the end or a barrier of the block.
  bool all_at_exchange() const;
  void check_same_stop(int a, int b) const;

  const Body* body_ = nullptr;
  LaunchShape shape_;
  unsigned char* shared_ = nullptr;
  std::vector<int> warps_;  ///< in the order in which they run
  std::array<int, kWarp> lanes_ = {};

  int64_t block_ = 0;
  std::vector<Thread> threads_;
  int warp_ = 0;    ///< warp that is running
  int thread_ = 0;  ///< thread that is running
  /// In each round every lane of a warp runs once, from one stop to the next.
  uint64_t round_ = 0;
  int lanes_run_ = 0;     ///< lanes that have run in this round
  unsigned reasons_ = 0;  ///< why they have stopped: a bit for each Stop
  /// Slots of this round, and of the one before, which some lanes have not read yet.
  std::array<Slots, 2> slots_;
  size_t slot_bytes_ = 0;  ///< size of the values that are passed in this round

  Fiber host_;
  Fiber* fiber_ = &host_;  ///< fiber that is running
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> free_fibers_;  ///< fibers without a thread
};

Grid& this_grid() {
  thread_local const auto grid = std::make_unique<Grid>();
  return *grid;
}

/// The grid that the calling thread of the host runs, or null. A library that is loaded later has room for few bytes that are
/// this fast to reach: the grid itself is on the heap.
[[gnu::tls_model("initial-exec")]] constinit thread_local Grid* running_grid = nullptr;

constexpr unsigned bit_of(Stop stop) { return 1u << static_cast<int>(stop); }

void Grid::choose_order(uint64_t order) {
  warps_.resize(static_cast<size_t>(shape_.threads / kWarp));
  std::iota(warps_.begin(), warps_.end(), 0);
  std::iota(lanes_.begin(), lanes_.end(), 0);
  switch (order % 4) {
    case 0:
      return;
    case 1:
      std::reverse(warps_.begin(), warps_.end());
      std::reverse(lanes_.begin(), lanes_.end());
      return;
    default:
      std::minstd_rand random(static_cast<unsigned>(order * 0x9e3779b9));
      std::shuffle(warps_.begin(), warps_.end(), random);
      std::shuffle(lanes_.begin(), lanes_.end(), random);
  }
}

void Grid::run(const LaunchShape& shape, const Body& body, uint64_t order) {
  MTF_CHECK(running_grid == nullptr, "{} is launched by {}", kernel_name(body), kernel_name(*body_));
  running_grid = this;
  body_ = &body;
  shape_ = shape;
  choose_order(order);
  SharedMemory shared(shape.shared_bytes);
  shared_ = shared.data();
  for (int64_t i = 0; i < shape.blocks; ++i) {
    block_ = order % 2 == 0 ? i : shape.blocks - 1 - i;
    shared.fill();
    run_block();
    MTF_CHECK(shared.intact(), "{} wrote behind its {} bytes of shared memory", kernel_name(body),
              shape.shared_bytes);
  }
  running_grid = nullptr;
}

void Grid::run_block() {
  threads_.assign(static_cast<size_t>(shape_.threads), Thread());
  do {
    for (int warp : warps_) run_warp(warp);
  } while (all_at_sync());
}

void Grid::run_warp(int warp) {
  warp_ = warp;
  do {
    ++round_;
    lanes_run_ = 0;
    reasons_ = 0;
    switch_to(next());
  } while (all_at_exchange());
}

void Grid::run_threads(void* grid) noexcept {
  Grid& self = *static_cast<Grid*>(grid);
  for (;;) {
    (*self.body_)(Block(self.block_, self.shape_.blocks, self.thread_, self.shape_.threads, self.shared_));
    self.record(nullptr, Stop::kEnd);
    self.free_fibers_.push_back(self.fiber_);
    self.switch_to(self.next());  // to itself if the next lane starts on this fiber
  }
}

Fiber& Grid::next() {
  if (lanes_run_ == kWarp) return host_;
  thread_ = warp_ * kWarp + lanes_[lanes_run_++];
  Fiber* waiting = threads_[thread_].fiber;
  return waiting != nullptr ? *waiting : free_fiber();
}

Fiber& Grid::free_fiber() {
  if (free_fibers_.empty()) {
    fibers_.push_back(std::make_unique<Fiber>(&run_threads, this));
    return *fibers_.back();
  }
  Fiber* fiber = free_fibers_.back();
  free_fibers_.pop_back();
  return *fiber;
}

void Grid::switch_to(Fiber& fiber) {
  if (&fiber == fiber_) return;
  std::exchange(fiber_, &fiber)->switch_to(fiber);
}

void Grid::record(Fiber* fiber, Stop why) {
  threads_[thread_] = {fiber, why};
  reasons_ |= bit_of(why);
}

void Grid::stop(Stop why) {
  record(fiber_, why);
  switch_to(next());
}

const Grid::Slots& Grid::exchange(const void* mine, size_t bytes) {
  Slots& slots = slots_[round_ % 2];
  LaneSlot& slot = slots[thread_ % kWarp];
  MTF_CHECK(bytes <= sizeof(slot.bytes), "{} exchanges values of {} bytes", kernel_name(*body_), bytes);
  if ((reasons_ & bit_of(Stop::kExchange)) == 0) slot_bytes_ = bytes;
  MTF_CHECK(bytes == slot_bytes_, "an exchange of {} bytes with {} bytes", slot_bytes_, bytes);
  copy_value(slot.bytes, mine, bytes);
  stop(Stop::kExchange);
  return slots;
}

bool Grid::all_at_sync() const {
  for (int thread = kWarp; thread < shape_.threads; thread += kWarp) check_same_stop(0, thread);
  return threads_[0].stop == Stop::kSync;
}

bool Grid::all_at_exchange() const {
  if (!std::has_single_bit(reasons_)) {
    const int first = warp_ * kWarp;
    for (int lane = 1; lane < kWarp; ++lane) check_same_stop(first, first + lane);
  }
  return (reasons_ & (bit_of(Stop::kExchange) | bit_of(Stop::kSyncWarp))) != 0;
}

void Grid::check_same_stop(int a, int b) const {
  MTF_CHECK(threads_[a].stop == threads_[b].stop, "in block {} of {}, thread {} {}, but thread {} {}", block_,
            kernel_name(*body_), a, words_for(threads_[a].stop), b, words_for(threads_[b].stop));
}

Grid& of_this_kernel() {
  MTF_CHECK(running_grid != nullptr, "a barrier outside of a kernel");
  return *running_grid;
}

}  // namespace

std::string kernel_name(const Body& body) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(
      abi::__cxa_demangle(body.target_type().name(), nullptr, nullptr, &status), std::free);
  return status == 0 ? name.get() : body.target_type().name();
}

void check_shape(const LaunchShape& shape, int max_threads, const Body& body) {
  MTF_CHECK(shape.blocks >= 0 && shape.blocks <= kMostGridBlocks, "{} is launched with {} blocks",
            kernel_name(body), shape.blocks);
  MTF_CHECK(shape.threads > 0 && shape.threads % kWarp == 0 && shape.threads <= max_threads,
            "{} is launched with {} threads; it must be a multiple of {} up to its kMaxThreads of {}",
            kernel_name(body), shape.threads, kWarp, max_threads);
  MTF_CHECK(max_threads <= kMostThreads, "kMaxThreads of {} is {}", kernel_name(body), max_threads);
  MTF_CHECK(shape.shared_bytes >= 0 && shape.shared_bytes <= kMostSharedBytes,
            "{} is launched with {} bytes of shared memory", kernel_name(body), shape.shared_bytes);
}

void run_grid(const LaunchShape& shape, const Body& body, uint64_t order) {
  this_grid().run(shape, body, order);
}

void sync_block() { of_this_kernel().stop(Stop::kSync); }
void sync_warp() { of_this_kernel().stop(Stop::kSyncWarp); }

void exchange(const void* mine, size_t bytes, int lane, void* result) {
  MTF_CHECK(lane >= 0 && lane < kWarp, "an exchange with lane {}", lane);
  const LaneSlot& slot = of_this_kernel().exchange(mine, bytes)[static_cast<size_t>(lane)];
  copy_value(result, slot.bytes, bytes);
}

const LaneSlot* exchange_all(const void* mine, size_t bytes) {
  return of_this_kernel().exchange(mine, bytes).data();
}

uint32_t ballot(bool value) {
  uint32_t bits = 0, bit = 1;
  for (const LaneSlot& slot : of_this_kernel().exchange(&value, sizeof(value))) {
    if (slot.bytes[0] != std::byte{0}) bits |= bit;
    bit <<= 1;
  }
  return bits;
}

}  // namespace mtf::cuda::emulator
