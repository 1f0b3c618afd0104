// What a test tells the library that stands in for NCCL.
#pragma once

namespace mtf::testing {

struct FakeNccl {
  bool start_hangs = false;  ///< connecting all processes
  bool split_hangs = false;  ///< splitting a group, as its members see it
  bool part_hangs = false;   ///< connecting a group that was split off
};

}  // namespace mtf::testing
