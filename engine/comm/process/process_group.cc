#include "engine/comm/process/process_group.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <span>

#include "engine/base/check.h"
#include "engine/base/file.h"
#include "engine/comm/process/communication_thread.h"
#include "engine/comm/process/diagnosis.h"
#include "engine/comm/process/flight_record.h"
#include "engine/comm/process/gloo_transport.h"
#include "engine/comm/process/pause_detector.h"
#include "engine/comm/process/process_communicator.h"
#include "engine/comm/process/watchdog.h"
#include "engine/comm/rendezvous/failure_listener.h"
#include "engine/comm/rendezvous/failure_report.h"
#include "engine/comm/rendezvous/handshake.h"
#include "engine/comm/rendezvous/heartbeat.h"
#include "engine/comm/rendezvous/rendezvous.h"

namespace mtf {

namespace {

/// The number of collectives that the flight record keeps.
constexpr size_t kRecorded = 1000;
/// The time that the store waits, at the end of a successful run, for processes that have not finished with
/// it.
constexpr Milliseconds kPart(5000);
/// The interval at which a wait for the store checks whether the collectives have failed.
constexpr Milliseconds kBetweenLooks(500);
/// The time for fail(), and for its parts.
constexpr Milliseconds kFail(2000), kFailReply(500), kFailDiagnosis(1000);

/// The longest interval between heartbeats, and the time without one after which a process counts as lost.
constexpr Milliseconds kHeartbeat(5000), kSilence(60'000);

/// Returns the options with a log that can be called in any case.
ProcessGroupOptions with_log(ProcessGroupOptions options) {
  if (!options.log) options.log = [](const std::string&) {};
  return options;
}

class OneProcess : public ProcessGroup {
 public:
  const Launch& launch() const override { return launch_; }
  void agree(const Fields&) override {}
  Communicator& communicator() override { return communicator_; }
  void first_then_others(const std::string&, const std::function<void()>& action) override { action(); }
  std::vector<std::string> collect(const std::string&, const std::string& text) override { return {text}; }
  std::vector<std::string> exchange(const std::string&, const std::string& text) override { return {text}; }
  std::string made_once(const std::string&, const std::function<std::string()>& make) override {
    return make();
  }
  void refuse(const Error& error) override { throw error; }
  void await_failure(int process) override { MTF_CHECK(false, "there is no other process {}", process); }
  void leave() override {}
  Error fail(const Error& error) noexcept override { return error; }

 private:
  Launch launch_;
  InProcessCommunicator communicator_;
};

class AbsentProcess final : public OneProcess {
 public:
  AbsentProcess(const Launch& launch, const Access& access, const std::string& build, Milliseconds patience)
      : absent_(launch), access_(access), build_(build), patience_(patience) {}
  Error fail(const Error& error) noexcept override {
    try {
      Rendezvous(absent_, access_, build_, patience_, patience_).decline(error);
    } catch (const std::exception&) {  // nobody is there, or the store belongs to another run
    }
    return error;
  }

 private:
  const Launch absent_;
  const Access access_;
  const std::string build_;
  const Milliseconds patience_;
};

class SeveralProcesses final : public ProcessGroup {
 public:
  SeveralProcesses(const Launch& launch, const ProcessGroupOptions& options)
      : launch_(launch),
        options_(with_log(options)),
        rendezvous_(launch, options.access, options.build, options.connect_timeout,
                    options.collective_timeout),
        record_(kRecorded) {}
  ~SeveralProcesses() override {
    if (transport_) transport_->abort("the process ends");  // a waiting job would block its thread
  }

  void meet() {
    rendezvous_.meet();
    heartbeat_.emplace(rendezvous_.store(), rank(), std::min(kHeartbeat, options_.collective_timeout / 4));
  }

  const Launch& launch() const override { return launch_; }
  void agree(const Fields& fields) override;
  Communicator& communicator() override;
  void first_then_others(const std::string& name, const std::function<void()>& action) override;
  std::vector<std::string> collect(const std::string& name, const std::string& text) override;
  std::vector<std::string> exchange(const std::string& name, const std::string& text) override;
  std::string made_once(const std::string& name, const std::function<std::string()>& make) override;
  void refuse(const Error& error) override { rendezvous_.refuse(error); }
  void await_failure(int process) override;
  void leave() override;
  Error fail(const Error& error) noexcept override;

 private:
  void compare(const Fields& fields);
  void connect();
  Error end_with(const Error& error);
  /// Returns the error that another thread has already reported to the other processes, if `error`, their
  /// end, is its consequence; otherwise `error`.
  Error own_cause(const Error& error);
  /// Returns the error to print for a lost peer.
  Error explain(const Error& error);
  /// Returns the error to print if the other processes waited for this one, because it was stopped for a
  /// while.
  std::optional<Error> after_pause(const Error& error);
  void write_flight_record() const;
  /// Returns the name of each rank.
  std::vector<std::string> peers() const;
  /// Like wait_for() of the rendezvous, but waits until the process that sets the key has given no sign of
  /// life for patience(); then throws Error (kPeerLost) with the text that `late` returns.
  template <class Late>
  std::string await(const std::string& key, int awaited, const Late& late);
  Milliseconds patience() const { return std::min(options_.collective_timeout, kSilence); }
  std::string within() const {
    return fmt::format("within {:g} s", std::chrono::duration<double>(patience()).count());
  }

  const Launch launch_;
  const ProcessGroupOptions options_;
  PauseDetector pauses_;
  Rendezvous rendezvous_;
  std::optional<Heartbeat> heartbeat_;
  FlightRecord record_;
  bool has_peers_ = false;  ///< every process has begun to connect to all others
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<CommunicationThread> thread_;
  std::unique_ptr<ProcessCommunicator> communicator_;
  std::unique_ptr<Watchdog> watchdog_;
  std::unique_ptr<FailureListener> listener_;
  std::optional<HeldDirectory> flight_directory_;  ///< directory of the flight record
};

std::vector<std::string> SeveralProcesses::peers() const {
  std::vector<std::string> names;
  for (const ProcessHello& member : rendezvous_.members()) names.push_back(member.name());
  return names;
}

template <class Late>
std::string SeveralProcesses::await(const std::string& key, int awaited, const Late& late) {
  for (Milliseconds waited = patience();; waited += patience()) {
    const std::string alive = Heartbeat::last(rendezvous_.store(), awaited);
    const auto deadline = std::chrono::steady_clock::now() + patience();
    while (std::chrono::steady_clock::now() < deadline) {
      if (std::optional<std::string> value = rendezvous_.wait_for(key, kBetweenLooks))
        return std::move(*value);
      if (thread_) thread_->check();  // the process that is awaited may be lost
    }
    if (alive == Heartbeat::last(rendezvous_.store(), awaited)) throw Error(ErrorKind::kPeerLost, late());
    options_.log(fmt::format("rank {} waits for {}, which is at work (more than {:g} s)", rank(),
                             rendezvous_.name(awaited), std::chrono::duration<double>(waited).count()));
  }
}

void SeveralProcesses::agree(const Fields& fields) {
  MTF_CHECK(!has_peers_, "agree() comes once");
  rendezvous_.store().set(fmt::format("fields/{}", rank()), to_text(fields));
  if (is_first()) {
    compare(fields);
    rendezvous_.store().set("agreed", "");
  }
  await("agreed", 0, [this] {
    const std::vector<int> missing = rendezvous_.missing("fields");
    return missing.empty() ? fmt::format("{} does not answer", rendezvous_.name(0))
                           : fmt::format("{} {} not come to the first step {}", rendezvous_.names(missing),
                                         missing.size() == 1 ? "has" : "have", within());
  });
  connect();
}

void SeveralProcesses::compare(const Fields& fields) {
  for (int other = 1; other < size(); ++other) {
    const std::string text = await(fmt::format("fields/{}", other), other, [&] {
      return fmt::format("{} has not come to the first step {}", rendezvous_.name(other), within());
    });
    const std::string wrong =
        difference(rendezvous_.members()[0], fields, rendezvous_.members()[other], fields_from_text(text));
    if (!wrong.empty()) {
      rendezvous_.refuse(
          Error(ErrorKind::kConfig, wrong, "the same program, configuration and files in all processes"));
    }
  }
}

void SeveralProcesses::connect() {
  const std::vector<std::string> peers = this->peers();
  std::vector<std::string> machines;
  for (const ProcessHello& member : rendezvous_.members()) machines.push_back(member.machine);
  has_peers_ = true;
  flight_directory_.emplace(directory_of(options_.flight_record));
  const auto await_address = [this](const std::string& key, int peer) {
    return await(key, peer, [&] {
      return fmt::format("{} has not begun to connect {}", rendezvous_.name(peer), within());
    });
  };
  transport_ = connect_gloo({.store = rendezvous_.store(),
                             .await = await_address,
                             .check = [this] { rendezvous_.throw_if_failed(); },
                             .access = options_.access,
                             .session = rendezvous_.session(),
                             .rank = rank(),
                             .size = size(),
                             .local = options_.local,
                             .address = rendezvous_.members()[rank()].address,
                             .connect_timeout = options_.connect_timeout,
                             .collective_timeout = options_.collective_timeout,
                             .record = record_,
                             .peers = peers,
                             .machines = machines,
                             .log = options_.log});
  thread_ = std::make_unique<CommunicationThread>(record_, options_.prepare_thread, options_.profile);
  communicator_ = std::make_unique<ProcessCommunicator>(*transport_, *thread_);
  watchdog_ = std::make_unique<Watchdog>(record_, rendezvous_.store(), rank(), peers,
                                         options_.collective_timeout, options_.log);
  listener_ = std::make_unique<FailureListener>(rendezvous_.store(), size(), [this](int failed) {
    transport_->abort(rendezvous_.name(failed) + " has failed");
  });
}

Communicator& SeveralProcesses::communicator() {
  MTF_CHECK(communicator_ != nullptr, "communicator() comes after agree()");
  return *communicator_;
}

void SeveralProcesses::first_then_others(const std::string& name, const std::function<void()>& action) {
  const std::string key = "first/" + name;
  if (is_first()) {
    try {
      action();
    } catch (const Error& error) {
      rendezvous_.refuse(error);
    }
    rendezvous_.store().set(key, "");
    return;
  }
  await(key, 0,
        [&] { return fmt::format("{} is not through with {} {}", rendezvous_.name(0), name, within()); });
  action();
}

std::vector<std::string> SeveralProcesses::collect(const std::string& name, const std::string& text) {
  const auto key = [&name](int process) { return fmt::format("collect/{}/{}", name, process); };
  if (!is_first()) {
    rendezvous_.store().set(key(rank()), text);
    return {};
  }
  std::vector<std::string> texts = {text};
  for (int other = 1; other < size(); ++other) {
    texts.push_back(await(key(other), other, [&] {
      return fmt::format("{} has not sent {} {}", rendezvous_.name(other), name, within());
    }));
    rendezvous_.store().set(key(other), "");  // frees the memory of the store
  }
  return texts;
}

std::vector<std::string> SeveralProcesses::exchange(const std::string& name, const std::string& text) {
  const auto key = [&name](int process) { return fmt::format("exchange/{}/{}", name, process); };
  rendezvous_.store().set(key(rank()), text);
  std::vector<std::string> texts;
  for (int process = 0; process < size(); ++process) {
    texts.push_back(process == rank() ? text : await(key(process), process, [&] {
      return fmt::format("{} has not sent {} {}", rendezvous_.name(process), name, within());
    }));
  }
  return texts;
}

std::string SeveralProcesses::made_once(const std::string& name, const std::function<std::string()>& make) {
  const std::string key = "once/" + name;
  if (rendezvous_.store().add(key + "/asked", 1) == 1) {
    rendezvous_.store().set(key + "/by", fmt::to_string(rank()));
    const std::string text = make();
    rendezvous_.store().set(key, text);
    return text;
  }
  const int maker = std::stoi(
      await(key + "/by", 0, [&] { return fmt::format("no process has begun {} {}", name, within()); }));
  return await(key, maker, [&] {
    return fmt::format("{} is not through with {} {}", rendezvous_.name(maker), name, within());
  });
}

void SeveralProcesses::await_failure(int process) {
  await(fmt::format("no failure/{}", process), process, [&] {
    return fmt::format("{} has failed, and does not say why {}", rendezvous_.name(process), within());
  });
  MTF_CHECK(false, "nobody sets that key");
}

void SeveralProcesses::leave() {
  // First over the connections, because these notice a process that has ended.
  if (communicator_) all_gather(*communicator_, "", "leave");
  // Then over the store, so that a process that closes its connections does not disturb the last message of
  // another.
  Store& store = rendezvous_.store();
  store.set(left_key(rank()), "");
  for (int other = 0; other < size(); ++other) {
    await(left_key(other), other,
          [&] { return fmt::format("{} has not come to the end {}", rendezvous_.name(other), within()); });
  }
  watchdog_.reset();
  listener_.reset();
  heartbeat_.reset();
  rendezvous_.part(kPart);
}

Error SeveralProcesses::fail(const Error& error) noexcept {
  try {
    return end_with(own_cause(error));
  } catch (const std::exception&) {  // the store is lost as well
    return error;
  }
}

Error SeveralProcesses::own_cause(const Error& error) {
  if (error.kind() != ErrorKind::kPeerLost) return error;
  rendezvous_.set_reply_timeout(kFailReply);
  try {
    const std::optional<FailureReport> own = read_failure(rendezvous_.store(), rank());
    return own ? error_of_text(own->kind, own->text) : error;
  } catch (const Error&) {  // the store is lost
    return error;
  }
}

Error SeveralProcesses::end_with(const Error& error) {
  const auto deadline = std::chrono::steady_clock::now() + kFail;
  rendezvous_.set_reply_timeout(kFailReply);
  const bool is_own = !rendezvous_.is_known(error);
  std::string lost_store;  ///< why the store is lost; empty: it is not
  try {
    rendezvous_.publish(error);
  } catch (const Error& lost) {
    lost_store = lost.what();
  }
  if (transport_) transport_->abort(error.what());
  write_flight_record();
  Error result = error;
  if (is_own && error.kind() == ErrorKind::kPeerLost) {
    if (const std::optional<Error> paused = after_pause(error)) {
      result = *paused;
    } else if (!lost_store.empty() && !launch_.store_is_served && !is_first()) {
      const bool connects = has_peers_ && !transport_;  // the process that it waited for may be the cause
      result = Error(ErrorKind::kPeerLost,
                     fmt::format("{}{} was lost (killed, stopped, or cut off from the network): {}",
                                 connects ? std::string(error.what()) + "; meanwhile " : "",
                                 rendezvous_.name(0), lost_store));
    } else if (lost_store.empty() && has_peers_) {
      result = explain(error);
    }
  }
  watchdog_.reset();
  listener_.reset();
  heartbeat_.reset();
  try {
    if (lost_store.empty())
      rendezvous_.part(std::chrono::ceil<Milliseconds>(deadline - std::chrono::steady_clock::now()));
  } catch (const std::exception&) {  // process 0 has ended meanwhile
  }
  return result;
}

Error SeveralProcesses::explain(const Error& error) {
  try {
    const std::string cause = root_cause(rendezvous_.store(), rank(), peers(), error, kFailDiagnosis);
    return error_of_text(ErrorKind::kPeerLost, cause);
  } catch (const std::exception&) {  // the store was lost meanwhile
    return error;
  }
}

std::optional<Error> SeveralProcesses::after_pause(const Error& error) {
  const Milliseconds pause = pauses_.last(options_.collective_timeout + kFail);
  if (pause < patience() / 2) return {};
  return Error(ErrorKind::kPeerLost, fmt::format("{} did not run for {:.3g} s (stopped, or its machine was "
                                                 "suspended), and then: {}",
                                                 rendezvous_.name(rank()),
                                                 std::chrono::duration<double>(pause).count(), error.what()));
}

void SeveralProcesses::write_flight_record() const {
  if (options_.flight_record.empty() || !has_peers_) return;
  if (!flight_directory_->change().empty()) return;  // another directory may have its name now
  const std::string text = record_.to_json();
  const int failed = write_file(options_.flight_record, std::as_bytes(std::span(text)));
  if (failed == ENOENT) return;  // the run failed before its first step and has no directory yet
  if (failed != 0) {
    options_.log(fmt::format("{}: cannot be written: {}", options_.flight_record, system_message(failed)));
  }
}

/// Raises the limit of open files, because each process has connections to all others.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

std::unique_ptr<ProcessGroup> one_process() { return std::make_unique<OneProcess>(); }

std::unique_ptr<ProcessGroup> absent_process(const Launch& launch, const Access& access,
                                             const std::string& build, Milliseconds patience) {
  return std::make_unique<AbsentProcess>(launch, access, build, patience);
}

std::unique_ptr<ProcessGroup> connect_processes(const Launch& launch, const ProcessGroupOptions& options) {
  if (!launch.several()) return one_process();
  raise_descriptor_limit();
  auto group = std::make_unique<SeveralProcesses>(launch, options);
  try {
    group->meet();
  } catch (const Error& error) {
    throw group->fail(error);
  }
  return group;
}

}  // namespace mtf
