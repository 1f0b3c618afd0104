// A library with NCCL's functions and without GPUs, whose groups begin to fail when a test says so: then they stay in
// progress, as those of processes that wait for a lost one.
#include "tests/nccl/fake_nccl.h"

#include <nccl.h>

#include <cstring>
#include <mutex>
#include <set>

struct ncclComm {
  ncclComm_t* split_to = nullptr;  ///< where a thread of NCCL writes the handle of a group that is split off
  bool hangs = false;
};

namespace {

std::mutex mutex;
std::set<ncclComm_t> alive;
mtf::testing::FakeNccl control;

ncclComm_t make(bool hangs) {
  const std::lock_guard lock(mutex);
  auto* made = new ncclComm{nullptr, hangs};
  alive.insert(made);
  return made;
}

void end(ncclComm_t group) {
  const std::lock_guard lock(mutex);
  if (alive.erase(group) == 0) return;
  delete group;
}

}  // namespace

extern "C" {

mtf::testing::FakeNccl* fake_nccl() { return &control; }
int fake_nccl_alive() { return static_cast<int>(alive.size()); }

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t) { return "an error"; }
const char* ncclGetLastError(ncclComm_t) { return ""; }
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::memset(id, 0, sizeof *id);
  return ncclSuccess;
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* group, int, ncclUniqueId, int, ncclConfig_t*) {
  *group = make(control.start_hangs);
  return ncclInProgress;
}
ncclResult_t ncclCommSplit(ncclComm_t group, int, int, ncclComm_t* made, ncclConfig_t*) {
  group->hangs = control.split_hangs;
  if (control.split_hangs) {
    group->split_to = made;
  } else {
    *made = make(control.part_hangs);
  }
  return ncclInProgress;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t group, ncclResult_t* state) {
  *state = group->hangs ? ncclInProgress : ncclSuccess;
  return ncclSuccess;
}
ncclResult_t ncclCommFinalize(ncclComm_t) { return ncclSuccess; }
ncclResult_t ncclCommDestroy(ncclComm_t group) {
  end(group);
  return ncclSuccess;
}
/// A split that is running ends, and writes its handle.
ncclResult_t ncclCommAbort(ncclComm_t group) {
  if (group->split_to != nullptr) *group->split_to = make(true);
  end(group);
  return ncclSuccess;
}
ncclResult_t ncclGroupStart() { return ncclSuccess; }
ncclResult_t ncclGroupEnd() { return ncclSuccess; }
ncclResult_t ncclAllReduce(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t,
                           cudaStream_t) {
  return ncclSuccess;
}
ncclResult_t ncclReduceScatter(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t,
                               cudaStream_t) {
  return ncclSuccess;
}
ncclResult_t ncclAllGather(const void*, void*, size_t, ncclDataType_t, ncclComm_t, cudaStream_t) {
  return ncclSuccess;
}
ncclResult_t ncclSend(const void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t) {
  return ncclSuccess;
}
ncclResult_t ncclRecv(void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t) { return ncclSuccess; }

}  // extern "C"
