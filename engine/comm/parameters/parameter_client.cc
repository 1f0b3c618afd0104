#include "engine/comm/parameters/parameter_client.h"

#include <fmt/format.h>

#include <cstring>
#include <optional>
#include <thread>

#include "engine/base/error.h"
#include "engine/base/json.h"

namespace mtf {
namespace {

using std::chrono::milliseconds;

/// Servers notice within the collective timeout what they wait for; this is the additional time for their
/// message.
constexpr milliseconds kGrace{5'000};
/// The time to wait for the last message of a server that has closed the connection.
constexpr milliseconds kLastWords{200};
constexpr uint64_t kMostAnswerBytes = 1 << 26;

}  // namespace

ParameterClient::ParameterClient(const ParameterClientOptions& options)
    : answer_timeout_(options.connect_timeout + options.collective_timeout + kGrace),
      collective_timeout_(options.collective_timeout) {
  for (const std::string& address : options.servers) {
    const int task = static_cast<int>(servers_.size());
    try {
      servers_.push_back({task, address,
                          connect_framed({.address = address,
                                          .access = options.access,
                                          .rank = options.worker,
                                          .purpose = kParameterPurpose},
                                         options.connect_timeout, options.collective_timeout)});
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kConfig) throw;
      throw Error(ErrorKind::kPeerLost, fmt::format("parameter server {}: {}", task, error.what()),
                  "is it running, with `cluster.job=ps`?");
    }
  }
  const std::string hello = json_text({{"worker", options.worker}, {"fields", options.fields}});
  ask_all(ParameterOperation::kHello, std::as_bytes(std::span(hello)));
}

/// Runs `action` on the socket; errors name the server.
template <class Action>
auto ParameterClient::with(Server& server, const Action& action) {
  std::string reason;
  try {
    return action();
  } catch (const Error& error) {
    reason = error.what();
  }
  std::optional<Frame> last_words;
  try {
    last_words = server.socket.receive(kLastWords);
  } catch (const Error&) {
    // there was no last message
  }
  if (last_words && last_words->operation == static_cast<uint16_t>(ParameterOperation::kError))
    refused(server, *last_words);
  throw Error(ErrorKind::kPeerLost, fmt::format("{} was lost: {}", name_of(server), reason));
}

std::string ParameterClient::name_of(const Server& server) {
  return fmt::format("parameter server {} ({})", server.task, server.address);
}

void ParameterClient::wrong_size(const Server& server, uint64_t bytes) {
  throw Error(ErrorKind::kSystem, fmt::format("{} answers with {} bytes", name_of(server), bytes));
}

/// Throws the error message of a server. If the message names a lost worker, that worker may have ended
/// because another server was lost: then the error names that server.
void ParameterClient::refused(Server& server, const Frame& frame) {
  std::string text(std::min<uint64_t>(frame.bytes, kMostAnswerBytes), ' ');
  server.socket.receive_bytes(std::as_writable_bytes(std::span(text)));
  const auto kind = static_cast<ErrorKind>(frame.id);
  const bool known =
      kind == ErrorKind::kConfig || kind == ErrorKind::kPeerLost || kind == ErrorKind::kDiverged;
  if (const Server* lost = kind == ErrorKind::kPeerLost ? lost_beside(server) : nullptr) {
    throw Error(ErrorKind::kPeerLost, fmt::format("{} was lost: the connection with it was closed; {}: {}",
                                                  name_of(*lost), name_of(server), text));
  }
  throw Error(known ? kind : ErrorKind::kSystem, fmt::format("{}: {}", name_of(server), text));
}

ParameterClient::Server* ParameterClient::lost_beside(const Server& server) {
  const auto end = std::chrono::steady_clock::now() + kLastWords;
  while (servers_.size() > 1 && std::chrono::steady_clock::now() < end) {
    for (Server& other : servers_) {
      if (&other != &server && other.socket.has_ended()) return &other;
    }
    std::this_thread::sleep_for(milliseconds(5));
  }
  return nullptr;
}

void ParameterClient::ask(Server& server, const Frame& frame, std::span<const std::byte> bytes) {
  with(server, [&] { server.socket.send(frame, bytes); });
}

void ParameterClient::ask(Server& server, ParameterOperation operation, std::span<const std::byte> bytes) {
  ask(server, {.operation = static_cast<uint16_t>(operation)}, bytes);
}

Frame ParameterClient::answer(Server& server, ParameterOperation operation) {
  const Frame frame = with(server, [&] { return server.socket.receive(answer_timeout_); });
  if (frame.operation == static_cast<uint16_t>(ParameterOperation::kError)) refused(server, frame);
  if (frame.operation != static_cast<uint16_t>(operation))
    throw Error(ErrorKind::kSystem, fmt::format("{} gives answer {} to {}", name_of(server), frame.operation,
                                                static_cast<int>(operation)));
  return frame;
}

std::vector<std::byte> ParameterClient::answer_bytes(Server& server, ParameterOperation operation) {
  const Frame frame = answer(server, operation);
  if (frame.bytes > kMostAnswerBytes) wrong_size(server, frame.bytes);
  std::vector<std::byte> bytes(frame.bytes);
  with(server, [&] { server.socket.receive_bytes(bytes); });
  return bytes;
}

template <class T>
T ParameterClient::answer_value(Server& server, ParameterOperation operation) {
  const std::vector<std::byte> bytes = answer_bytes(server, operation);
  if (bytes.size() != sizeof(T)) wrong_size(server, bytes.size());
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

/// Returns the value in an answer of server 0, and passes on the decisions after it. They come before all else
/// that this worker sends to the other servers: what it pulls has all updates that server 0 knew of, even if
/// the workers of these updates have died.
template <class T>
T ParameterClient::decided(ParameterOperation operation) {
  const std::vector<std::byte> bytes = answer_bytes(servers_[0], operation);
  if (bytes.size() < sizeof(T)) wrong_size(servers_[0], bytes.size());
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  const std::span decisions = std::span(bytes).subspan(sizeof(T));
  for (size_t i = 1; i < servers_.size() && !decisions.empty(); ++i)
    ask(servers_[i], ParameterOperation::kApply, decisions);
  return value;
}

void ParameterClient::ask_all(ParameterOperation operation, std::span<const std::byte> bytes) {
  for (Server& server : servers_) ask(server, operation, bytes);
  for (Server& server : servers_) answer_bytes(server, operation);
}

void ParameterClient::set(int server, uint32_t id, std::span<const std::byte> value, int64_t begin) {
  ask(servers_[server],
      {.operation = static_cast<uint16_t>(ParameterOperation::kSet),
       .id = id,
       .version = static_cast<uint64_t>(begin)},
      value);
}

void ParameterClient::start(const ParameterStart& start) {
  await_start();
  ask_all(ParameterOperation::kStart, message_of(start));
}

PulledState ParameterClient::pull(int64_t version, const std::vector<PulledVariable>& variables) {
  // All servers are asked first, so that they send at the same time. Server 0 is asked even if it has none of
  // the variables, because it has the state.
  for (Server& server : servers_) {
    std::vector<uint32_t> ids;
    for (const PulledVariable& variable : variables) {
      if (variable.server == server.task) ids.push_back(variable.id);
    }
    ask(server,
        {.operation = static_cast<uint16_t>(ParameterOperation::kPull),
         .id = starts_,
         .version = static_cast<uint64_t>(version)},
        std::as_bytes(std::span(ids)));
  }
  PulledState state;
  int64_t stop_signal = 0;  // the first one that any server has received
  for (Server& server : servers_) {
    const auto here = answer_value<PulledState>(server, ParameterOperation::kPull);
    if (server.task == 0) state = here;
    if (stop_signal == 0) stop_signal = here.stop_signal;
    for (const PulledVariable& variable : variables) {
      if (variable.server != server.task) continue;
      const Frame frame = answer(server, ParameterOperation::kVariable);
      if (frame.id != variable.id || frame.bytes != variable.memory.size())
        throw Error(ErrorKind::kSystem,
                    fmt::format("{} sends variable {} of {} bytes, not {} of {}", name_of(server), frame.id,
                                frame.bytes, variable.id, variable.memory.size()));
      with(server, [&] { server.socket.receive_bytes(variable.memory); });
    }
  }
  answer_timeout_ = collective_timeout_ + kGrace;  // all workers are connected now
  state.stop_signal = stop_signal;
  return state;
}

void ParameterClient::push(int server, uint32_t index, int64_t version, std::span<const std::byte> tensor) {
  ask(servers_[server],
      {.operation = static_cast<uint16_t>(ParameterOperation::kPush),
       .id = index,
       .version = static_cast<uint64_t>(version)},
      tensor);
}

std::vector<std::vector<double>> ParameterClient::squares(int64_t version) {
  for (Server& server : servers_) {
    ask(server, {.operation = static_cast<uint16_t>(ParameterOperation::kSquares),
                 .version = static_cast<uint64_t>(version)});
  }
  std::vector<std::vector<double>> squares;
  for (Server& server : servers_) {
    const std::vector<std::byte> bytes = answer_bytes(server, ParameterOperation::kSquares);
    std::vector<double>& of_server = squares.emplace_back(bytes.size() / sizeof(double));
    if (!bytes.empty()) std::memcpy(of_server.data(), bytes.data(), of_server.size() * sizeof(double));
  }
  return squares;
}

void ParameterClient::update(const ParameterStep& step, std::span<const double> squares) {
  const std::vector<std::byte> bytes = message_of(step, std::as_bytes(squares));
  for (Server& server : servers_) ask(server, ParameterOperation::kUpdate, bytes);
}

DealtBatch ParameterClient::batch(ParameterOperation operation) {
  ask(servers_[0], operation);
  const auto batch = decided<DealtBatch>(operation);
  batch_ = batch.number;
  return batch;
}

DealtBatch ParameterClient::next() { return batch(ParameterOperation::kNext); }
DealtBatch ParameterClient::pause() { return batch(ParameterOperation::kPause); }

Committed ParameterClient::commit(const ParameterStep& step, std::span<const double> squares) {
  const std::vector<std::byte> bytes = message_of(step, std::as_bytes(squares));
  for (size_t i = 1; i < servers_.size(); ++i) {
    ask(servers_[i],
        {.operation = static_cast<uint16_t>(ParameterOperation::kStage),
         .version = static_cast<uint64_t>(batch_)},
        bytes);
  }
  for (size_t i = 1; i < servers_.size(); ++i) answer_bytes(servers_[i], ParameterOperation::kStage);
  ask(servers_[0], ParameterOperation::kCommit, bytes);
  return decided<Committed>(ParameterOperation::kCommit);
}

void ParameterClient::resume() {
  ask(servers_[0], ParameterOperation::kResume);
  answer_bytes(servers_[0], ParameterOperation::kResume);
}

StalenessReport ParameterClient::staleness() {
  ask(servers_[0], ParameterOperation::kReport);
  const std::vector<std::byte> bytes = answer_bytes(servers_[0], ParameterOperation::kReport);
  StalenessReport report;
  report.updates.resize(bytes.size() / sizeof(int64_t));
  if (!bytes.empty())
    std::memcpy(report.updates.data(), bytes.data(), report.updates.size() * sizeof(int64_t));
  if (!report.updates.empty()) {
    report.dealt_again = report.updates.back();
    report.updates.pop_back();
  }
  return report;
}

void ParameterClient::leave() { ask_all(ParameterOperation::kLeave); }

}  // namespace mtf
