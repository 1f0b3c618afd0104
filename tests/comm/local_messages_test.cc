#include "engine/comm/process/local_messages.h"

#include <gtest/gtest.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <numeric>
#include <system_error>
#include <thread>

namespace mtf {
namespace {

using Way = LocalMessages::Way;
using Ends = LocalMessages::Ends;

/// Whether the system lets processes read memory in this way at all.
bool may_read_memory() {
  int from = 7, to = 0;
  const iovec local{&to, sizeof(to)}, remote{&from, sizeof(from)};
  return ::process_vm_readv(::getpid(), &local, 1, &remote, 1, 0) == sizeof(to);
}

/// Two ranks of one process.
class TwoRanks : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!may_read_memory()) GTEST_SKIP() << "this system does not let processes read memory";
    ASSERT_TRUE(zero->open(1, one->card()));
    ASSERT_TRUE(one->open(0, zero->card()));
  }
  static const std::byte* bytes(const int& value) { return reinterpret_cast<const std::byte*>(&value); }
  static std::byte* bytes(int& value) { return reinterpret_cast<std::byte*>(&value); }
  void send(Ends& ends, uint64_t tag, const int& value) {
    zero->send(ends, 1, tag, bytes(value), sizeof(int));
  }
  void receive(Ends& ends, uint64_t tag, int& value) {
    one->receive(ends, 0, tag, bytes(value), sizeof(int));
  }

  std::unique_ptr<LocalMessages> zero = make_local_messages(0, 2), one = make_local_messages(1, 2);
};

TEST_F(TwoRanks, AMessageIsSentWhenItIsRead) {
  Ends out, in;
  int to = 0;
  const int from = 7;
  send(out, 3, from);
  receive(in, 3, to);
  EXPECT_EQ(one->wait(in, Way::kReceived), 0);
  EXPECT_EQ(zero->wait(out, Way::kSent), 1);
  EXPECT_EQ(to, 7);
}

TEST_F(TwoRanks, ThereMayBeMoreMessagesThanSlots) {
  constexpr int kMessages = 1000;
  Ends out, in;
  std::vector<int> from(kMessages), to(kMessages);
  std::iota(from.begin(), from.end(), 1);
  for (int i = 0; i < kMessages; ++i) send(out, static_cast<uint64_t>(i), from[static_cast<size_t>(i)]);
  for (int i = kMessages; i-- > 0;) receive(in, static_cast<uint64_t>(i), to[static_cast<size_t>(i)]);
  std::thread sender([&] {
    for (int i = 0; i < kMessages; ++i) zero->wait(out, Way::kSent);
  });
  for (int i = 0; i < kMessages; ++i) EXPECT_EQ(one->wait(in, Way::kReceived), 0);
  sender.join();
  EXPECT_EQ(from, to);
}

TEST_F(TwoRanks, ABackgroundThreadReadsWhileNobodyWaits) {
  one->move_in_background();
  Ends out, in;
  int to = 0;
  const int from = 7;
  receive(in, 3, to);
  send(out, 3, from);
  EXPECT_EQ(zero->wait(out, Way::kSent), 1);  // rank 1 has read it
  EXPECT_EQ(one->wait(in, Way::kReceived), 0);
  EXPECT_EQ(to, 7);
}

TEST_F(TwoRanks, AForgottenMessageIsNotRead) {
  Ends forgotten, out, in;
  int to = 0;
  const int old = 1, from = 7;
  send(forgotten, 3, old);
  zero->forget(forgotten);
  receive(in, 3, to);
  send(out, 3, from);
  EXPECT_EQ(one->wait(in, Way::kReceived), 0);
  EXPECT_EQ(to, 7);
  int unwritten = 0;
  receive(in, 4, unwritten);
  one->forget(in);
  send(out, 4, from);
  one->receive(in, 0, 5, bytes(to), sizeof(int));
  send(out, 5, old);
  EXPECT_EQ(one->wait(in, Way::kReceived), 0);
  EXPECT_EQ(to, 1);
  EXPECT_EQ(unwritten, 0);
  zero->forget(out);
}

TEST_F(TwoRanks, WakeEndsAWait) {
  Ends in;
  int to = 0;
  receive(in, 3, to);
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    one->wake();
  });
  EXPECT_EQ(one->wait(in, Way::kReceived), -1);
  other.join();
  one->forget(in);
}

TEST_F(TwoRanks, OnlyTheMemoryThatTheCardNamesIsOpened) {
  LocalMessages::Card card = one->card();
  card.token[0] ^= 1;  // as a process on another machine
  EXPECT_FALSE(zero->open(1, card));
  card = one->card();
  card.process = 0x7fffffff;  // no such process
  EXPECT_FALSE(zero->open(1, card));
  card = one->card();
  card.descriptor = -1;
  EXPECT_FALSE(zero->open(1, card));
}

TEST(LocalMessages, AWaitForAProcessThatHasEndedFails) {
  if (!may_read_memory()) GTEST_SKIP() << "this system does not let processes read memory";
  const std::unique_ptr<LocalMessages> own = make_local_messages(0, 2);
  int ready[2], go[2];
  ASSERT_EQ(::pipe(ready), 0);
  ASSERT_EQ(::pipe(go), 0);
  const LocalMessages::Card own_card = own->card();
  const pid_t child = ::fork();
  if (child == 0) {
    const std::unique_ptr<LocalMessages> there = make_local_messages(1, 2);
    Ends out;
    const std::byte sent{7};
    if (!there->open(0, own_card)) ::_exit(1);
    const LocalMessages::Card card = there->card();
    if (::write(ready[1], &card, sizeof(card)) != sizeof(card)) ::_exit(2);
    char word = 0;
    if (::read(go[0], &word, 1) != 1) ::_exit(3);
    there->send(out, 0, 1, &sent, 1);
    ::_exit(0);
  }
  LocalMessages::Card card;
  ASSERT_EQ(::read(ready[0], &card, sizeof(card)), static_cast<ssize_t>(sizeof(card)));
  ASSERT_TRUE(own->open(1, card));
  ASSERT_EQ(::write(go[1], "!", 1), 1);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  Ends in;
  std::byte received{};
  own->receive(in, 1, 1, &received, 1);
  EXPECT_THROW(own->wait(in, Way::kReceived), std::system_error);
  for (const int descriptor : {ready[0], ready[1], go[0], go[1]}) ::close(descriptor);
}

}  // namespace
}  // namespace mtf
