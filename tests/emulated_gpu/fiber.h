// Fiber is a stack; a thread of the host switches between fibers.
#pragma once

#include <boost/context/detail/fcontext.hpp>
#include <cstddef>

#include "tests/emulated_gpu/sanitizers.h"

namespace mtf::cuda::emulator {

class Fiber {
 public:
  /// The stack on which the calling thread runs.
  Fiber() = default;
  /// A new stack. The first switch to it calls `main(argument)`, which must not return.
  Fiber(void (*main)(void* argument), void* argument);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Called on this fiber: continues with another one. Returns when a fiber switches back to this one.
  void switch_to(Fiber& other) {
    Switch data{*this, other};
#if defined(MTF_ADDRESS_SANITIZER)
    __sanitizer_start_switch_fiber(&fake_stack_, other.stack_, other.stack_bytes_);
#endif
    Switch::end(boost::context::detail::jump_fcontext(other.registers_, &data));
  }

 private:
  /// Data passed from one stack to the next at a switch.
  struct Switch {
    Fiber& from;
    Fiber& to;

    /// The entry point on the new stack.
    static void begin(boost::context::detail::transfer_t transfer);
    static void end(boost::context::detail::transfer_t transfer) {
      auto& [from, to] = *static_cast<Switch*>(transfer.data);
      from.registers_ = transfer.fctx;
#if defined(MTF_ADDRESS_SANITIZER)
      __sanitizer_finish_switch_fiber(to.fake_stack_, &from.stack_, &from.stack_bytes_);
#endif
    }
  };

  void (*main_)(void*) = nullptr;
  void* argument_ = nullptr;
  std::byte* pages_ = nullptr;
  void* registers_ = nullptr;  ///< where the fiber continues
  // State for AddressSanitizer:
  const void* stack_ = nullptr;
  size_t stack_bytes_ = 0;
  void* fake_stack_ = nullptr;
};

}  // namespace mtf::cuda::emulator
