// Stacks between which a thread of the host switches.
#pragma once

#include <cstddef>

namespace mtf::cuda::emulator {

class Fiber {
 public:
  /// The stack on which the thread runs.
  Fiber() = default;
  /// A stack of its own. The first switch to it calls `main(argument)`, which must not return.
  Fiber(void (*main)(void* argument), void* argument);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Called on this fiber: goes on with another one. Returns when one goes on with this.
  void switch_to(Fiber& other);

 private:
  struct Switch;

  void (*main_)(void*) = nullptr;
  void* argument_ = nullptr;
  std::byte* pages_ = nullptr;
  void* registers_ = nullptr;  ///< where it left off
  // For AddressSanitizer:
  const void* stack_ = nullptr;
  size_t stack_bytes_ = 0;
  void* fake_stack_ = nullptr;
};

}  // namespace mtf::cuda::emulator
