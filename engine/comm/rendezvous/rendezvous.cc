#include "engine/comm/rendezvous/rendezvous.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <limits>
#include <thread>

#include "engine/comm/rendezvous/failure_report.h"
#include "engine/comm/security/authentication.h"

namespace mtf {

namespace {

using RendezvousClock = std::chrono::steady_clock;

/// The interval at which a waiting process checks whether another one has failed.
constexpr Milliseconds kLook(200);

Milliseconds left_until(RendezvousClock::time_point deadline) {
  return std::chrono::ceil<Milliseconds>(deadline - RendezvousClock::now());
}

TcpStoreOptions store_options(const Launch& launch, const Access& access, Milliseconds connect_timeout,
                              Milliseconds reply_timeout) {
  return {.host = launch.host,
          .port = launch.port,
          .connect_timeout = connect_timeout,
          .reply_timeout = reply_timeout,
          .access = access,
          .rank = launch.rank,
          .authenticates = launch.store_authenticates};
}

/// Returns the error with which a process ends because of the failure of `other`.
Error consequence(const FailureReport& failure, const std::string& other) {
  if (failure.is_lost_peer()) return error_of_text(failure.kind, failure.text);
  if (failure.kind != ErrorKind::kConfig)
    return error_of_text(ErrorKind::kPeerLost, other + " failed first: " + failure.text);
  // Differences between processes name these; another mistake may be in files that only that process has.
  const size_t at = failure.text.find(other), end = at + other.size();
  const bool is_named = at != std::string::npos && (end == failure.text.size() ||
                                                    std::isdigit(failure.text[end]) == 0);  // rank 1, not 12
  return error_of_text(failure.kind, is_named ? failure.text : other + ": " + failure.text);
}

double in_seconds(Milliseconds time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

std::unique_ptr<TcpStoreServer> Rendezvous::serve(const Launch& launch, const Access& access,
                                                  Milliseconds connect_timeout) {
  if (launch.rank != 0 || launch.store_is_served) return nullptr;
  try {
    return std::make_unique<TcpStoreServer>(TcpStoreServerOptions{
        .address = {launch.host, launch.port}, .access = access, .patience = connect_timeout});
  } catch (const Error& busy) {
    if (busy.kind() == ErrorKind::kConfig) throw;
    // A second process 0 or another run may be using the port; the contents of the store will show it.
    constexpr Milliseconds kShort(2000);
    try {
      const TcpStore other(store_options(launch, access, kShort, kShort));
      return nullptr;
    } catch (const Error& refusal) {
      if (refusal.kind() == ErrorKind::kConfig) throw;
      const Problem& problem = busy.problems().front();
      throw Error(ErrorKind::kSystem, "rank 0 " + problem.message,
                  problem.hint.empty() ? "another port, which is free" : problem.hint);
    }
  }
}

Rendezvous::Rendezvous(const Launch& launch, const Access& access, const std::string& build,
                       Milliseconds connect_timeout, Milliseconds reply_timeout)
    : launch_(launch),
      build_(build),
      connect_timeout_(connect_timeout),
      server_(serve(launch, access, connect_timeout)),
      whole_(store_options(launch, access, connect_timeout, reply_timeout)) {
  if (!launch.store_authenticates) signed_.emplace(whole_, access.secret);
  Store& base = signed_ ? static_cast<Store&>(*signed_) : whole_;
  store_ = std::make_unique<PrefixStore>(base, launch.job.empty() ? "" : launch.job + "/");
  if (server_) whole_.set("job", launch.job);
}

std::string Rendezvous::name(int rank) const {
  const auto index = static_cast<size_t>(rank);
  return index < members_.size() ? members_[index].name() : fmt::format("rank {}", rank);
}

std::string Rendezvous::names(const std::vector<int>& ranks) const {
  return ranks.size() == 1 ? name(ranks.front()) : fmt::format("ranks {}", fmt::join(ranks, ", "));
}

void Rendezvous::meet() {
  const auto deadline = RendezvousClock::now() + connect_timeout_;
  check_job(connect_timeout_);
  check_not_begun();
  ProcessHello mine = hello_of_this_process(launch_, build_, whole_.local_address());
  mine.store_address = whole_.server_address();
  if (store_->add(fmt::format("rank/{}", mine.rank), 1) > 1) check_claim(mine);
  store_->set(fmt::format("hello/{}", mine.rank), to_text(mine));
  if (is_first()) judge(mine);
  // Process 0 may have begun to wait a little later than this process.
  constexpr Milliseconds kLater(2000);
  const std::optional<std::string> begun = wait_for("begun", left_until(deadline) + kLater);
  if (!begun) throw_missing();
  begin(*begun, mine);
}

/// Begins the session when all processes have come: what they write from now on belongs to this start of the
/// run.
void Rendezvous::begin(const std::string& begun, const ProcessHello& mine) {
  members_ = members_from_text(begun);
  if (members_.empty())
    throw Error(ErrorKind::kSystem, "the rendezvous store holds the start of a run without processes");
  if (const std::string wrong = difference(members_.front(), mine); !wrong.empty())
    throw Error(ErrorKind::kConfig, wrong);
  const auto rank = static_cast<size_t>(mine.rank);
  if (rank >= members_.size() || members_[rank].nonce != mine.nonce)
    throw Error(ErrorKind::kConfig,
                fmt::format("the rendezvous store at {} holds another start of this run",
                            to_string(HostPort{launch_.host, launch_.port})),
                "a port of its own for each run, and a rank of its own for each process");
  session_ = text_of(Secret().proof({begun}));
  if (signed_) signed_->begin_session(session_);
}

void Rendezvous::decline(const Error& error) {
  check_job(connect_timeout_);
  check_not_begun();
  publish(error);
  part(connect_timeout_);
  // The processes that have come notice it the next time they check.
  constexpr int kLooks = 10;
  if (server_) wait_for_parting(size() - static_cast<int64_t>(missing("hello").size()) + 1, kLooks * kLook);
}

void Rendezvous::check_job(Milliseconds timeout) {
  if (launch_.store_is_served) return;
  const std::optional<std::string> job = whole_.get("job", timeout);
  if (job && *job == launch_.job) return;
  is_stranger_ = true;
  const std::string endpoint = to_string(HostPort{launch_.host, launch_.port});
  if (!job) {
    throw Error(ErrorKind::kPeerLost,
                fmt::format("process 0 has not come to the rendezvous store at {} within {:g} s", endpoint,
                            in_seconds(timeout)));
  }
  throw Error(ErrorKind::kConfig,
              fmt::format("{} is the meeting place of another run (`{}`, this one is `{}`)", endpoint, *job,
                          launch_.job),
              "a port of its own for each run");
}

void Rendezvous::check_not_begun() {
  const std::optional<std::string> begun = store_->get("begun", Milliseconds(0));
  if (!begun) return;
  is_stranger_ = true;
  throw Error(ErrorKind::kConfig,
              fmt::format("{} is the meeting place of a run of {} processes that has already begun, and this "
                          "is rank {} of {}",
                          to_string(HostPort{launch_.host, launch_.port}), members_from_text(*begun).size(),
                          launch_.rank, launch_.size),
              "a port of its own for each run, and a rank of its own for each process");
}

/// Called if the counter shows that another process has this rank. If strangers may change the counter, the
/// other process's hello must show it as well.
void Rendezvous::check_claim(const ProcessHello& mine) {
  const auto other = store_->get(fmt::format("hello/{}", mine.rank), Milliseconds(2000));
  if (!other && signed_) return;
  const std::string first = other ? hello_from_text(*other).name() : fmt::format("rank {}", mine.rank);
  throw Error(ErrorKind::kConfig,
              fmt::format("rank {} is claimed by two processes: {} and {}", mine.rank, first, mine.name()),
              "a rank of its own for each process");
}

void Rendezvous::judge(const ProcessHello& mine) {
  const auto deadline = RendezvousClock::now() + connect_timeout_;
  std::vector<ProcessHello> hellos = {mine};
  for (int rank = 1; rank < size(); ++rank) {
    const auto text = wait_for(fmt::format("hello/{}", rank), left_until(deadline));
    if (!text) throw_missing();
    const ProcessHello other = hello_from_text(*text);
    if (const std::string wrong = difference(mine, other); !wrong.empty()) {
      throw Error(ErrorKind::kConfig, wrong);
    }
    hellos.push_back(other);
  }
  replace_loopback_addresses(hellos);
  store_->set("begun", to_text(hellos));
}

void Rendezvous::throw_missing() {
  const std::vector<int> absent = missing("hello");
  const std::string refused = server_ ? server_->refused() : "";
  const std::string endpoint = to_string(HostPort{launch_.host, launch_.port});
  if (absent.empty()) {
    throw Error(ErrorKind::kPeerLost, fmt::format("rank 0 has come to {}, but does not answer", endpoint));
  }
  throw Error(ErrorKind::kPeerLost,
              fmt::format("{} of {} {} not come to {} within {:g} s", names(absent), size(),
                          absent.size() == 1 ? "has" : "have", endpoint, in_seconds(connect_timeout_)),
              refused.empty() ? "are all processes started, with the same address?"
                              : fmt::format("{} came with another secret: {}", refused, kSameSecretHint));
}

std::optional<std::string> Rendezvous::wait_for(const std::string& key, Milliseconds timeout) {
  const auto deadline = RendezvousClock::now() + timeout;
  while (true) {
    const Milliseconds left = std::max(left_until(deadline), Milliseconds(0));
    if (auto value = store_->get(key, std::min(left, kLook))) return value;
    throw_if_failed();
    if (left == Milliseconds(0)) return {};
  }
}

std::vector<int> Rendezvous::missing(const std::string& key) {
  std::vector<int> ranks;
  for (int rank = 0; rank < size(); ++rank) {
    if (!store_->get(fmt::format("{}/{}", key, rank), Milliseconds(0))) ranks.push_back(rank);
  }
  return ranks;
}

void Rendezvous::throw_if_failed() {
  // Before all have come, another process may expect more processes than this one.
  const std::optional<int> failed =
      failed_rank(*store_, members_.empty() ? std::numeric_limits<int>::max() : size());
  if (!failed) return;
  // Find the first failure that is not the consequence of another one.
  std::optional<FailureReport> cause;
  int culprit = *failed;
  const auto look_at = [&](int rank) {
    const std::optional<FailureReport> report = read_failure(*store_, rank);
    if (!report) return;
    if (!cause ||
        std::pair(report->is_lost_peer(), report->order) < std::pair(cause->is_lost_peer(), cause->order)) {
      cause = report;
      culprit = rank;
    }
  };
  for (int rank = 0; rank < size(); ++rank) look_at(rank);
  if (*failed >= size()) look_at(*failed);
  if (!cause) return;
  const Error error = consequence(*cause, name(culprit));
  mark_known(error);
  throw error;
}

void Rendezvous::mark_known(const Error& error) {
  const std::lock_guard lock(mutex_);
  known_.push_back(error.what());
}

bool Rendezvous::is_known(const Error& error) const {
  const std::lock_guard lock(mutex_);
  return std::ranges::find(known_, error.what()) != known_.end();
}

void Rendezvous::publish(const Error& error) {
  if (is_stranger_ || is_known(error)) return;
  mark_known(error);
  mtf::publish(*store_, launch_.rank, error);
}

void Rendezvous::refuse(const Error& error) {
  publish(error);
  throw error;
}

void Rendezvous::part(Milliseconds timeout) {
  if (is_stranger_) return;
  store_->add("gone", 1);
  if (server_) wait_for_parting(size(), timeout);
}

void Rendezvous::wait_for_parting(int64_t processes, Milliseconds timeout) {
  const auto deadline = RendezvousClock::now() + timeout;
  while (store_->add("gone", 0) < processes && left_until(deadline) > Milliseconds(0)) {
    std::this_thread::sleep_for(Milliseconds(10));
  }
}

}  // namespace mtf
