#include "tests/emulated_gpu/fiber.h"

#include <sys/mman.h>

#include <boost/context/detail/fcontext.hpp>

#include "engine/base/check.h"
#include "tests/emulated_gpu/sanitizers.h"

namespace mtf::cuda::emulator {
namespace {

namespace context = boost::context::detail;

constexpr size_t kStackBytes = 256 << 10;
constexpr size_t kGuardBytes = 4096;  ///< size of the page below the stack, at which an overflow faults

}  // namespace

/// Data passed from one stack to the next at a switch.
struct Fiber::Switch {
  Fiber& from;
  Fiber& to;

  /// The entry point on the new stack.
  static void begin(context::transfer_t transfer) {
    Fiber& fiber = static_cast<Switch*>(transfer.data)->to;
    end(transfer);
    fiber.main_(fiber.argument_);
    MTF_CHECK(false, "a fiber came to its end");
  }
  static void end(context::transfer_t transfer) {
    auto& [from, to] = *static_cast<Switch*>(transfer.data);
    from.registers_ = transfer.fctx;
#if defined(MTF_ADDRESS_SANITIZER)
    __sanitizer_finish_switch_fiber(to.fake_stack_, &from.stack_, &from.stack_bytes_);
#endif
  }
};

Fiber::Fiber(void (*main)(void*), void* argument) : main_(main), argument_(argument) {
  void* pages = mmap(nullptr, kGuardBytes + kStackBytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  MTF_CHECK(pages != MAP_FAILED, "no memory for the stack of a fiber");
  MTF_CHECK(mprotect(pages, kGuardBytes, PROT_NONE) == 0, "mprotect");
  pages_ = static_cast<std::byte*>(pages);
  stack_ = pages_ + kGuardBytes;
  stack_bytes_ = kStackBytes;
  registers_ = context::make_fcontext(pages_ + kGuardBytes + kStackBytes, kStackBytes, &Switch::begin);
}

Fiber::~Fiber() {
  if (pages_ == nullptr) return;
#if defined(MTF_ADDRESS_SANITIZER)
  __asan_unpoison_memory_region(stack_, stack_bytes_);  // the pages may be reused
#endif
  munmap(pages_, kGuardBytes + kStackBytes);
}

void Fiber::switch_to(Fiber& other) {
  Switch data{*this, other};
#if defined(MTF_ADDRESS_SANITIZER)
  __sanitizer_start_switch_fiber(&fake_stack_, other.stack_, other.stack_bytes_);
#endif
  Switch::end(context::jump_fcontext(other.registers_, &data));
}

}  // namespace mtf::cuda::emulator
