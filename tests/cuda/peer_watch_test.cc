#include "engine/backend/cuda/collectives/peer_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "tests/support/failure.h"

namespace mtf::cuda {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using ::testing::HasSubstr;

/// Work of a device that ends only when end() is called.
class Hang {
 public:
  void end() { ended_.set_value(); }
  void wait() { ended_.get_future().wait(); }

 private:
  std::promise<void> ended_;
};

TEST(PeerWatch, NothingHappensWhileAllAreThere) {
  std::atomic<int> looks = 0;
  PeerWatch watch([&] { ++looks; }, [] { FAIL(); }, hours(1));
  while (looks < 2) watch.during([] {});
  EXPECT_EQ(failure([&] { watch.check(); }), "no error");
}

TEST(PeerWatch, ALostPeerEndsTheWait) {
  Hang hang;
  PeerWatch watch([] { throw Error(ErrorKind::kPeerLost, "rank 1 was lost"); }, [&] { hang.end(); },
                  hours(1));
  EXPECT_THAT(failure([&] { watch.during([&] { hang.wait(); }); }, ErrorKind::kPeerLost),
              HasSubstr("rank 1"));
  EXPECT_THAT(failure([&] { watch.during([] { FAIL(); }); }, ErrorKind::kPeerLost), HasSubstr("rank 1"));
}

TEST(PeerWatch, AnErrorThatFollowsIsNotTheCause) {
  Hang hang;
  PeerWatch watch([] { throw Error(ErrorKind::kPeerLost, "rank 1 was lost"); }, [&] { hang.end(); },
                  hours(1));
  const auto fail = [&] {
    hang.wait();
    throw Error(ErrorKind::kSystem, "it was ended");
  };
  EXPECT_THAT(failure([&] { watch.during(fail); }, ErrorKind::kPeerLost), HasSubstr("rank 1"));
}

TEST(PeerWatch, AnErrorOfItsOwnIsThrown) {
  PeerWatch watch([] {}, [] { FAIL(); }, hours(1));
  EXPECT_THAT(failure([&] { watch.during([] { throw Error(ErrorKind::kMemory, "no memory"); }); }),
              HasSubstr("no memory"));
}

TEST(PeerWatch, AWaitThatLastsTooLongIsEnded) {
  Hang hang;
  PeerWatch watch([] {}, [&] { hang.end(); }, milliseconds(100));
  EXPECT_THAT(failure([&] { watch.during([&] { hang.wait(); }); }, ErrorKind::kPeerLost),
              HasSubstr("the GPU has not come to an end for 0.1 s"));
}

}  // namespace
}  // namespace mtf::cuda
