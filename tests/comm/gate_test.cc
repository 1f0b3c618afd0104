// Tests who is admitted at a port of a run: those who know its secret, however many others try.
#include "engine/comm/security/gate.h"

#include <gmock/gmock.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "engine/comm/security/access.h"
#include "tests/support/failure.h"

namespace mtf {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using GateClock = std::chrono::steady_clock;
using std::chrono::seconds;

const Secret kSecret("the secret of this run");

GateClock::time_point in(seconds time) { return GateClock::now() + time; }

/// A gate that runs in a thread.
class ServedGate {
 public:
  explicit ServedGate(const Secret& secret, const std::string& purpose = "test")
      : gate_(listen_at({"127.0.0.1"}, 0), secret, purpose), thread_([this](const std::stop_token& stop) {
          while (!stop.stop_requested()) {
            std::optional<Admitted> member = gate_.next(GateClock::now() + std::chrono::milliseconds(20));
            const std::lock_guard lock(mutex_);
            if (member) members_.push_back(std::move(*member));
          }
        }) {}
  int port() const { return gate_.port(); }
  std::vector<int> ranks() {
    const std::lock_guard lock(mutex_);
    std::vector<int> ranks;
    for (const Admitted& member : members_) ranks.push_back(member.rank);
    return ranks;
  }

 private:
  Gate gate_;
  std::mutex mutex_;
  std::vector<Admitted> members_;
  std::jthread thread_;
};

Socket visit(int port) { return std::move(connect_to("127.0.0.1", port, in(seconds(20))).socket); }

Authentication::Outcome enter(int port, const Secret& secret, const std::string& purpose = "test",
                              uint32_t rank = 0) {
  return authenticate(visit(port), secret, purpose, rank, in(seconds(20))).outcome;
}

bool gets_closed(const Socket& socket, seconds patience = seconds(20)) {
  char bytes[256];
  while (wait_readable(socket, in(patience)))
    if (::recv(socket.get(), bytes, sizeof bytes, 0) <= 0) return true;
  return false;
}

TEST(Gate, LetsInWhoKnowsTheSecret) {
  ServedGate gate(kSecret);
  EXPECT_EQ(enter(gate.port(), kSecret, "test", 7), Authentication::Outcome::kDone);
  EXPECT_EQ(enter(gate.port(), Secret("the secret of another run")), Authentication::Outcome::kOtherSecret);
  EXPECT_EQ(enter(gate.port(), Secret()), Authentication::Outcome::kOtherSecret);
  EXPECT_EQ(enter(gate.port(), kSecret, "another purpose"), Authentication::Outcome::kOtherSecret);
  EXPECT_EQ(gate.ranks(), std::vector{7});
}

TEST(Gate, NothingThatWasHeardLetsAnybodyIn) {
  const Challenge first = Challenge::make(), second = Challenge::make();
  EXPECT_NE(first.nonce, second.nonce);
  const auto responds = [](const Challenge& challenge) {
    Response response{.rank = 1};
    response.proof =
        kSecret.proof({"client", "test", {challenge.nonce.data(), 32}, "1", {response.nonce.data(), 32}});
    return response;
  };
  const Response heard = responds(first);
  const Verdict verdict = judge(kSecret, "test", first, heard);
  ASSERT_TRUE(is_admitted(verdict));
  EXPECT_FALSE(is_admitted(judge(kSecret, "test", second, heard))) << "a replay";
  Response other_rank = heard;
  other_rank.rank = 2;
  EXPECT_FALSE(is_admitted(judge(kSecret, "test", first, other_rank)));
  Response reflected = heard;
  reflected.proof = verdict.proof;
  EXPECT_FALSE(is_admitted(judge(kSecret, "test", first, reflected))) << "the server's own words";
  EXPECT_NE(kSecret.proof({"a", "bc"}), kSecret.proof({"ab", "c"}));
}

TEST(Gate, AServerThatDoesNotKnowTheSecretIsNotBelieved) {
  const Listening listening = listen_at({"127.0.0.1"}, 0);
  std::jthread server([&] {
    wait_readable(listening.sockets.front(), in(seconds(20)));
    const Socket socket = accept_at(listening.sockets.front()).socket;
    const Challenge challenge = Challenge::make();
    ::send(socket.get(), &challenge, sizeof challenge, MSG_NOSIGNAL);
    Response response;
    wait_readable(socket, in(seconds(20)));
    ::recv(socket.get(), &response, sizeof response, MSG_WAITALL);
    Verdict verdict{.admitted = {'y', 'e', 's', '\n'}, .proof = response.proof};
    ::send(socket.get(), &verdict, sizeof verdict, MSG_NOSIGNAL);
    gets_closed(socket);
  });
  EXPECT_EQ(enter(port_of(listening.sockets.front()), kSecret), Authentication::Outcome::kOtherSecret);
}

TEST(Gate, StrangersKeepNobodyWaiting) {
  ServedGate gate(kSecret);
  std::vector<Socket> strangers;
  for (int i = 0; i < 600; ++i) {
    strangers.push_back(visit(gate.port()));
    ASSERT_TRUE(strangers.back().open());
    // Some send the beginning of a possible response, and continue slowly.
    if (i % 2 == 0) ::send(strangers.back().get(), kAuthenticationMagic.data(), 1 + i % 8, MSG_NOSIGNAL);
  }
  const auto begin = GateClock::now();
  EXPECT_EQ(enter(gate.port(), kSecret), Authentication::Outcome::kDone);
  EXPECT_LT(GateClock::now() - begin, seconds(3));
  EXPECT_TRUE(gets_closed(strangers.front(), seconds(3))) << "more than 256 drive each other away";
}

TEST(Gate, AnotherProtocolEndsAtItsFirstWrongByteAndASlowOneInTime) {
  ServedGate gate(kSecret);
  const auto begin = GateClock::now();
  for (const char* bytes : {"GET / HTTP/1.1\r\n", "\x16\x03\x01", "MTFauthX"}) {
    const Socket socket = visit(gate.port());
    ::send(socket.get(), bytes, std::string_view(bytes).size(), MSG_NOSIGNAL);
    EXPECT_TRUE(gets_closed(socket)) << bytes;
  }
  EXPECT_LT(GateClock::now() - begin, seconds(3));
  const Socket slow = visit(gate.port());
  std::jthread drips([&](const std::stop_token& stop) {
    ::send(slow.get(), kAuthenticationMagic.data(), 8, MSG_NOSIGNAL);
    while (!stop.stop_requested()) {
      ::send(slow.get(), "x", 1, MSG_NOSIGNAL);
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
    }
  });
  EXPECT_TRUE(gets_closed(slow)) << "a byte now and then is no progress";
  EXPECT_TRUE(gate.ranks().empty());
}

// Access (access.h).

std::string written(const std::string& text) {
  const std::string path = ::testing::TempDir() + "secret-" + std::to_string(::getpid());
  std::ofstream(path) << text;
  return path;
}

TEST(Access, TheSecretIsThatOfTheEnvironmentOrOfAFile) {
  EXPECT_FALSE(find_access({}, {}).is_wide());
  EXPECT_EQ(find_access({}, {{"MTF_SECRET", " 0123456789abcdef\n"}}).secret.text(), "0123456789abcdef");
  ClusterOptions options;
  options.secret_file = written("fedcba9876543210\n");
  EXPECT_EQ(find_access(options, {}).secret.text(), "fedcba9876543210");
  EXPECT_EQ(find_access(options, {{"MTF_SECRET", "0123456789abcdef"}}).secret.text(), "0123456789abcdef");
  EXPECT_THAT(
      failure(
          [&] {
            find_access({}, {{"MTF_SECRET", "abc"}});
          },
          ErrorKind::kUsage),
      HasSubstr("the environment variable MTF_SECRET has a secret of 3 characters, which can be guessed; "
                "at least 16 characters"));
  options.secret_file = written("abc");
  EXPECT_THAT(failure([&] { find_access(options, {}); }, ErrorKind::kConfig),
              AllOf(HasSubstr("`cluster.secret_file`: "), HasSubstr("of 3 characters")));
  std::filesystem::remove(*options.secret_file);
  EXPECT_THAT(failure([&] { find_access(options, {}); }, ErrorKind::kConfig),
              AllOf(HasSubstr("cannot be read (No such file or directory)")));
  options.secret_file = "/dev/zero";
  EXPECT_THAT(failure([&] { find_access(options, {}); }, ErrorKind::kConfig),
              HasSubstr("more than 4096 bytes"));
}

TEST(Access, WithoutASecretOnlyThisMachineIsServed) {
  const Access none, insecure{.secret = {}, .insecure = true}, with{.secret = kSecret};
  for (const char* here : {"127.0.0.1", "127.0.1.1", "::1"}) none.require(here, {here, 29500});
  for (const Access& wide : {insecure, with}) wide.require("10.0.0.1", {"node-a", 29500});
  EXPECT_THAT(failure(
                  [&] {
                    none.require("10.0.0.1", {"node-a", 29500});
                  },
                  ErrorKind::kConfig),
              AllOf(HasSubstr("node-a:29500 can be reached from other machines (10.0.0.1), and the processes "
                              "share no secret"),
                    HasSubstr("MTF_SECRET in the environment of all processes, or `cluster.secret_file`"),
                    HasSubstr("`cluster.insecure: true` does without")));
  EXPECT_THAT(failure(
                  [&] {
                    listen_for_members({"0.0.0.0", 0}, none, "the store");
                  },
                  ErrorKind::kConfig),
              HasSubstr("share no secret"));
}

TEST(Access, AMachineWaitsForItsOwnName) {
  const auto waited = [](std::chrono::milliseconds patience) {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_THAT(failure(
                    [&] {
                      listen_for_members({"node-a.invalid", 0}, {.secret = kSecret}, "the store", patience);
                    },
                    ErrorKind::kSystem),
                HasSubstr("cannot serve the store at the host `node-a.invalid`, which is unknown"));
    return std::chrono::steady_clock::now() - begin;
  };
  EXPECT_GE(waited(std::chrono::milliseconds(400)), std::chrono::milliseconds(400));
}

TEST(Access, NothingListensBesideTheAddressThatWasGiven) {
  for (const Access& access : {Access{}, Access{.secret = kSecret}}) {
    const Listening listening = listen_for_members({"127.0.0.2", 0}, access, "the store");
    ASSERT_EQ(listening.sockets.size(), 1u);
    const int port = port_of(listening.sockets.front());
    const Opened opened = connect_to("127.0.0.2", port, in(seconds(5)));
    EXPECT_TRUE(opened.socket.open());
    EXPECT_EQ(opened.host, "127.0.0.2");
    EXPECT_EQ(connect_to("127.0.0.1", port, in(seconds(5))).error, "Connection refused");
    EXPECT_EQ(connect_to("::1", port, in(seconds(5))).socket.open(), false);
  }
  // No machine has an address of 192.0.2.0/24 (RFC 5737).
  EXPECT_THAT(failure(
                  [&] {
                    listen_for_members({"192.0.2.7", 1}, {.secret = kSecret}, "the store");
                  },
                  ErrorKind::kSystem),
              HasSubstr("cannot serve the store at port 1 of 192.0.2.7: Cannot assign requested address; an "
                        "address that this machine has"));
}

}  // namespace
}  // namespace mtf
