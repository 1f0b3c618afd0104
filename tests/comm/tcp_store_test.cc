#include "engine/comm/rendezvous/tcp_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <future>
#include <thread>

#include "engine/comm/rendezvous/tcp_store_protocol.h"
#include "engine/comm/security/authentication.h"
#include "engine/comm/sockets/socket.h"
#include "tests/support/failure.h"
#include "tests/support/process_entries.h"

namespace mtf {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr Milliseconds kLong(20'000), kShort(50);
using StoreTestClock = std::chrono::steady_clock;

TcpStoreOptions client_of(const TcpStoreServer& server) {
  return {.host = "127.0.0.1", .port = server.port(), .connect_timeout = kLong, .reply_timeout = kLong};
}

Socket connection_to(int port) {
  Opened opened = connect_to("127.0.0.1", port, StoreTestClock::now() + kLong);
  EXPECT_TRUE(opened.socket.open()) << opened.error;
  return std::move(opened.socket);
}

void send_all(const Socket& socket, const std::string& bytes) {
  EXPECT_EQ(::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(bytes.size()));
}

/// Returns whether the other end closes the connection.
bool is_closed(const Socket& socket) {
  const auto deadline = StoreTestClock::now() + kLong;
  char bytes[256];
  while (wait_readable(socket, deadline))
    if (::recv(socket.get(), bytes, sizeof bytes, 0) <= 0) return true;
  return false;
}

/// Returns a connection that was admitted.
Socket member_connection_to(int port) {
  Socket socket = connection_to(port);
  const Authentication result =
      authenticate(socket, Secret(), kStorePurpose, 0, StoreTestClock::now() + kLong);
  EXPECT_EQ(result.outcome, Authentication::Outcome::kDone) << result.reason;
  return socket;
}

std::string request_of(StoreRequest request) {
  std::string bytes;
  StoreWriter(bytes).number(request);
  return bytes;
}

/// Another program at a port: it accepts connections, sends `greeting`, and closes them.
class OtherProgram {
 public:
  explicit OtherProgram(std::string greeting)
      : listener_(std::move(listen_at({"127.0.0.1"}, 0).sockets.front())) {
    thread_ = std::thread([this, greeting = std::move(greeting)] {
      while (!stop_) {
        if (!wait_readable(listener_, StoreTestClock::now() + Milliseconds(10))) continue;
        const Socket socket = accept_at(listener_).socket;
        if (!socket.open()) continue;
        char request[256];
        if (!wait_readable(socket, StoreTestClock::now() + kLong)) continue;
        if (::recv(socket.get(), request, sizeof request, 0) > 0 && !greeting.empty())
          send_all(socket, greeting);
      }
    });
  }
  ~OtherProgram() {
    stop_ = true;
    thread_.join();
  }
  int port() const { return port_of(listener_); }

 private:
  Socket listener_;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

TEST(TcpStore, KeepsValuesForAllClients) {
  const TcpStoreServer server;
  TcpStore one(client_of(server)), other(client_of(server));
  one.set("a", "text");
  EXPECT_EQ(other.get("a", Milliseconds(0)), "text");
  other.set("a", "");
  EXPECT_EQ(one.get("a", kLong), "");
  const std::string large(3'000'000, 'x');
  one.set("large", large);
  EXPECT_EQ(other.get("large", kLong), large);
  EXPECT_EQ(one.local_address(), "127.0.0.1");
}

TEST(TcpStore, CountsOverAllClients) {
  const TcpStoreServer server;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&server] {
      TcpStore store(client_of(server));
      for (int k = 0; k < 50; ++k) store.add("n", 2);
    });
  }
  for (std::thread& thread : threads) thread.join();
  TcpStore store(client_of(server));
  EXPECT_EQ(store.add("n", -1), 799);
  EXPECT_EQ(store.get("n", kLong), "799");
}

TEST(TcpStore, WaitsForAValueAndNoLongerThanItIsTold) {
  const TcpStoreServer server;
  TcpStore store(client_of(server));
  EXPECT_EQ(store.get("late", Milliseconds(0)), std::nullopt);
  EXPECT_EQ(store.get("late", kShort), std::nullopt);
  auto late = std::async(std::launch::async, [&store] { return store.get("late", kLong); });
  // A call that waits does not delay other calls of the same client.
  EXPECT_EQ(store.add("n", 1), 1);
  EXPECT_EQ(store.get("never", kShort), std::nullopt);
  EXPECT_EQ(late.wait_for(Milliseconds(0)), std::future_status::timeout);
  store.set("late", "here");
  EXPECT_EQ(late.get(), "here");
  EXPECT_EQ(store.get("late", Milliseconds(0)), "here");
}

TEST(TcpStore, APrefixKeepsRunsApart) {
  const TcpStoreServer server;
  TcpStore whole(client_of(server));
  PrefixStore first(whole, "run-1/"), second(whole, "run-2/");
  first.set("a", "1");
  EXPECT_EQ(second.get("a", Milliseconds(0)), std::nullopt);
  EXPECT_EQ(second.add("n", 3), 3);
  EXPECT_EQ(whole.get("run-1/a", Milliseconds(0)), "1");
  EXPECT_EQ(whole.get("run-2/n", Milliseconds(0)), "3");
}

TEST(TcpStore, OtherProgramsNeitherStallNorEndTheServer) {
  const TcpStoreServer server;
  TcpStore store(client_of(server));
  std::string too_many = request_of(StoreRequest::kWait), too_long = request_of(StoreRequest::kSet);
  StoreWriter(too_many).number(~uint64_t{0});
  StoreWriter(too_long).text("key").number(uint64_t{1} << 40);
  std::string no_sum = request_of(StoreRequest::kAdd);
  store.set("word", "seven");
  StoreWriter(no_sum).text("word").number<int64_t>(1);
  for (const std::string& bytes : {too_many, too_long, no_sum, request_of(static_cast<StoreRequest>(200))}) {
    const Socket socket = member_connection_to(server.port());
    send_all(socket, bytes);
    EXPECT_TRUE(is_closed(socket)) << bytes;
  }
  for (const std::string& bytes :
       {std::string("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), std::string("\x16\x03\x01\x02"), too_many}) {
    const Socket socket = connection_to(server.port());
    send_all(socket, bytes);
    EXPECT_TRUE(is_closed(socket)) << bytes;
  }
  const Socket silent = connection_to(server.port());
  const Socket half = member_connection_to(server.port());
  std::string half_request = request_of(StoreRequest::kSet);
  StoreWriter(half_request).text("half").number(uint64_t{1000});
  send_all(half, half_request);
  EXPECT_EQ(store.add("n", 1), 1);
  // Both connections are closed after a while, even if a byte comes now and then.
  std::jthread drips([&half](const std::stop_token& stop) {
    while (!stop.stop_requested() && ::send(half.get(), "", 1, MSG_NOSIGNAL) > 0)
      std::this_thread::sleep_for(Milliseconds(500));
  });
  EXPECT_TRUE(is_closed(silent));
  EXPECT_TRUE(is_closed(half));
  EXPECT_EQ(store.get("half", Milliseconds(0)), std::nullopt);
}

TEST(TcpStore, NobodyWritesWhoDoesNotKnowTheSecret) {
  const Access access{.secret = Secret("the secret of this run")};
  const TcpStoreServer server({.access = access});
  TcpStoreOptions options = client_of(server);
  options.access = access;
  TcpStore store(options);
  // Connects as a client of torchrun's store would.
  const Socket stranger = connection_to(server.port());
  std::string forged = request_of(StoreRequest::kValidate);
  StoreWriter(forged).number(kStoreMagic).number(StoreRequest::kSet).text("failed").text("1");
  send_all(stranger, forged);
  EXPECT_TRUE(is_closed(stranger));
  EXPECT_EQ(store.get("failed", Milliseconds(0)), std::nullopt);
  EXPECT_EQ(server.refused(), "");
  options.access.secret = Secret("the secret of another run");
  EXPECT_EQ(
      failure([&] { TcpStore other(options); }, ErrorKind::kConfig),
      "the rendezvous store at 127.0.0.1:" + std::to_string(server.port()) +
          " has another secret than this process (it does not admit this process); the same secret in all "
          "processes, by MTF_SECRET or `cluster.secret_file`");
  // The server records it after it has answered.
  for (int look = 0; look < 1000 && server.refused().empty(); ++look)
    std::this_thread::sleep_for(Milliseconds(5));
  EXPECT_THAT(server.refused(), HasSubstr("127.0.0.1:"));
}

TEST(TcpStore, TakesNoMoreBytesThanItsLimit) {
  const TcpStoreServer server({.most_bytes = 10'000'000});
  TcpStore store(client_of(server));
  const std::string large(1'000'000, 'x');
  size_t taken = 0;
  const std::string refused = failure([&] {
    for (; taken < 100; ++taken) store.set("large/" + std::to_string(taken), large);
  });
  EXPECT_THAT(refused, HasSubstr("it closed the connection"));
  EXPECT_EQ(taken, 9u);
  store.set("large/0", "");  // frees memory
  store.set("more", large);
}

TEST(TcpStore, ARequestMayComeByteByByte) {
  const TcpStoreServer server;
  TcpStore store(client_of(server));
  const Socket socket = member_connection_to(server.port());
  std::string bytes = request_of(StoreRequest::kSet);
  StoreWriter(bytes).text("slow").text("value").number(StoreRequest::kAdd).text("n").number<int64_t>(7);
  for (const char byte : bytes) send_all(socket, std::string(1, byte));
  EXPECT_EQ(store.get("slow", kLong), "value");
  int64_t answer = 0;
  EXPECT_TRUE(wait_readable(socket, StoreTestClock::now() + kLong));
  EXPECT_EQ(::recv(socket.get(), &answer, sizeof answer, 0), 8);
  EXPECT_EQ(answer, 7);
}

TEST(TcpStore, SaysWhyThereIsNoServer) {
  const auto connect = [](const std::string& host, int port) {
    return failure([&] { TcpStore({.host = host, .port = port, .connect_timeout = Milliseconds(300)}); });
  };
  const int free_port = port_of(listen_at({"127.0.0.1"}, 0).sockets.front());
  EXPECT_EQ(connect("127.0.0.1", free_port),
            "nothing answers at 127.0.0.1:" + std::to_string(free_port) +
                " within 0.3 s (Connection refused); is process 0 running, and is the address right?");
  EXPECT_THAT(connect("no-such-host.invalid", 1),
              AllOf(HasSubstr("the host `no-such-host.invalid`"), HasSubstr("unknown")));
  for (const char* greeting : {"HTTP/1.1 400 Bad Request\r\n\r\n", ""}) {
    const OtherProgram other(greeting);
    EXPECT_THAT(connect("127.0.0.1", other.port()), HasSubstr("answers, but is not a rendezvous store"));
  }
  const Socket silent = std::move(listen_at({"127.0.0.1"}, 0).sockets.front());
  EXPECT_THAT(connect("127.0.0.1", port_of(silent)), HasSubstr("answers, but is not a rendezvous store"));
}

TEST(TcpStore, APortInUseIsAnError) {
  for (const char* host : {"127.0.0.1", "localhost"}) {
    const TcpStoreServer server;
    EXPECT_EQ(failure(
                  [&] {
                    TcpStoreServer again({.address = {host, server.port()}});
                  },
                  ErrorKind::kSystem),
              "cannot serve the store at port " + std::to_string(server.port()) + ": Address already in use");
  }
}

TEST(TcpStore, AServerThatIsGoneIsALostPeer) {
  auto server = std::make_unique<TcpStoreServer>();
  TcpStore store(client_of(*server));
  auto waits = std::async(std::launch::async, [&store] {
    return failure([&] { store.get("never", kLong); }, ErrorKind::kPeerLost);
  });
  store.add("n", 1);
  server.reset();
  EXPECT_THAT(waits.get(), HasSubstr("is lost"));
  EXPECT_THAT(failure([&] { store.add("n", 1); }, ErrorKind::kPeerLost), HasSubstr("is lost"));
}

TEST(TcpStore, AServerThatIsSilentIsALostPeer) {
  // This server greets and then is silent.
  const Socket listener = std::move(listen_at({"127.0.0.1"}, 0).sockets.front());
  std::promise<void> over;
  std::thread greets([&listener, end = over.get_future()] {
    wait_readable(listener, StoreTestClock::now() + kLong);
    const Socket socket = accept_at(listener).socket;
    std::string greeting;
    while (greeting.size() < 10) {  // kValidate and its number, kPing and its number
      char bytes[10];
      wait_readable(socket, StoreTestClock::now() + kLong);
      greeting.append(bytes, static_cast<size_t>(::recv(socket.get(), bytes, sizeof bytes, 0)));
    }
    send_all(socket, greeting.substr(6, 4));
    end.wait();
  });
  {
    TcpStore store({.host = "127.0.0.1",
                    .port = port_of(listener),
                    .connect_timeout = kLong,
                    .reply_timeout = Milliseconds(200),
                    .authenticates = false});
    EXPECT_THAT(failure([&] { store.add("n", 1); }, ErrorKind::kPeerLost),
                HasSubstr("does not answer for 0.2"));
  }
  over.set_value();
  greets.join();
}

TEST(TcpStore, LeavesNoDescriptorOrThread) {
  { const TcpStoreServer warm_up; }
  const int64_t descriptors = entries_of(kOpenDescriptors), threads = entries_of(kRunningThreads);
  for (int cycle = 0; cycle < 100; ++cycle) {
    const TcpStoreServer server;
    TcpStore one(client_of(server)), other(client_of(server));
    one.set("a", "b");
    EXPECT_EQ(other.get("a", kLong), "b");
  }
  EXPECT_EQ(settled_entries(kOpenDescriptors, descriptors), descriptors);
  EXPECT_EQ(settled_entries(kRunningThreads, threads), threads);
}

}  // namespace
}  // namespace mtf
