#include "tests/emulated_gpu/fiber.h"

#include <sys/mman.h>

#include <atomic>

#include "engine/base/check.h"

namespace mtf::cuda::emulator {
namespace {

namespace context = boost::context::detail;

constexpr size_t kStackBytes = 256 << 10;
constexpr size_t kGuardBytes = 4096;  ///< size of the page below the stack, at which an overflow faults

/// How much deeper in its pages a stack begins than the first one. Stacks that all began at the end of a page would lie in
/// the same few sets of the cache.
size_t bytes_left_free() {
  static std::atomic<size_t> stacks;
  constexpr size_t kTwoLines = 128, kStacks = 32;
  return stacks++ % kStacks * kTwoLines;
}

}  // namespace

void Fiber::Switch::begin(context::transfer_t transfer) {
  Fiber& fiber = static_cast<Switch*>(transfer.data)->to;
  end(transfer);
  fiber.main_(fiber.argument_);
  MTF_CHECK(false, "a fiber came to its end");
}

Fiber::Fiber(void (*main)(void*), void* argument) : main_(main), argument_(argument) {
  void* pages = mmap(nullptr, kGuardBytes + kStackBytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  MTF_CHECK(pages != MAP_FAILED, "no memory for the stack of a fiber");
  MTF_CHECK(mprotect(pages, kGuardBytes, PROT_NONE) == 0, "mprotect");
  pages_ = static_cast<std::byte*>(pages);
  stack_ = pages_ + kGuardBytes;
  stack_bytes_ = kStackBytes - bytes_left_free();
  registers_ = context::make_fcontext(pages_ + kGuardBytes + stack_bytes_, stack_bytes_, &Switch::begin);
}

Fiber::~Fiber() {
  if (pages_ == nullptr) return;
#if defined(MTF_ADDRESS_SANITIZER)
  __asan_unpoison_memory_region(stack_, kStackBytes);  // the pages may be reused
#endif
  munmap(pages_, kGuardBytes + kStackBytes);
}

}  // namespace mtf::cuda::emulator
