// Fiber is a stack; a thread of the host switches between fibers.
#pragma once

#include <cstddef>

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
  void switch_to(Fiber& other);

 private:
  struct Switch;

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
