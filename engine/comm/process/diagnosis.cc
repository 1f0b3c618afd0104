#include "engine/comm/process/diagnosis.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "engine/base/json.h"
#include "engine/comm/rendezvous/failure_report.h"

namespace mtf {

namespace {

std::string wait_key(int rank) { return fmt::format("waits/{}", rank); }

std::string collective_text(const PublishedWait& wait) {
  return fmt::format("collective {} {} ({} bytes)", wait.sequence, wait.name, wait.bytes);
}

/// The reports that the processes of a run have published about each other.
struct Evidence {
  std::vector<std::optional<FailureReport>> failures;  ///< failure of each rank
  std::vector<std::optional<PublishedWait>> waits;     ///< what each rank waits for

  /// Returns the rank of the first failure that is not the consequence of another one; -1 if there is none.
  int first_cause() const {
    int first = -1;
    for (size_t rank = 0; rank < failures.size(); ++rank)
      if (failures[rank] && !failures[rank]->is_lost_peer() &&
          (first < 0 || failures[rank]->order < failures[static_cast<size_t>(first)]->order))
        first = static_cast<int>(rank);
    return first;
  }
};

Evidence gather_evidence(Store& store, size_t size, size_t rank, const Error& own, Milliseconds patience) {
  Evidence evidence{std::vector<std::optional<FailureReport>>(size),
                    std::vector<std::optional<PublishedWait>>(size)};
  evidence.failures[rank] = FailureReport{0, ErrorKind::kPeerLost, own.what()};
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (;;) {
    bool complete = true;
    for (size_t r = 0; r < size; ++r) {
      if (!evidence.failures[r]) evidence.failures[r] = read_failure(store, static_cast<int>(r));
      complete = complete && evidence.failures[r];
    }
    if (complete || evidence.first_cause() >= 0 || std::chrono::steady_clock::now() >= deadline) break;
    std::this_thread::sleep_for(Milliseconds(50));
  }
  for (size_t r = 0; r < size; ++r) evidence.waits[r] = read_wait(store, static_cast<int>(r));
  return evidence;
}

/// Returns the rank whose name stands between `before` and `after` in a text; -1 if there is none.
int named_after(const std::string& before, const std::string& after, const std::string& text,
                const std::vector<std::string>& peers) {
  for (size_t rank = 0; rank < peers.size(); ++rank)
    if (text.find(before + peers[rank] + after) != std::string::npos) return static_cast<int>(rank);
  return -1;
}

int lost_in(const std::string& text, const std::vector<std::string>& peers) {
  return named_after("the connection to ", " was lost", text, peers);
}

int silent_in(const std::string& text, const std::vector<std::string>& peers) {
  const int rank = named_after("", " has sent nothing", text, peers);
  return rank >= 0 ? rank : named_after("", " has taken nothing", text, peers);
}

/// Returns the ranks whose reports are used, in the order of their credibility: this process comes first.
std::vector<size_t> witnesses(const Evidence& evidence, size_t own) {
  std::vector<size_t> order{own};
  for (size_t rank = 0; rank < evidence.failures.size(); ++rank)
    if (rank != own && evidence.failures[rank]) order.push_back(rank);
  return order;
}

std::optional<std::string> disagreement_in(const Evidence& evidence, const std::vector<std::string>& peers) {
  for (size_t a = 0; a < peers.size(); ++a)
    for (size_t b = 0; b < a; ++b)
      if (evidence.waits[a] && evidence.waits[b])
        if (const auto text = disagreement(peers[a], static_cast<int>(a), *evidence.waits[a], peers[b],
                                           static_cast<int>(b), *evidence.waits[b]))
          return text;
  return {};
}

/// Follows from process to process whom each waits for, and returns the one that waits for nobody; -1 if they
/// wait in a circle.
int end_of_chain(int rank, const Evidence& evidence, const std::vector<std::string>& peers) {
  std::set<int> seen;
  while (seen.insert(rank).second) {
    const auto at = static_cast<size_t>(rank);
    int next = -1;
    if (evidence.failures[at]) next = silent_in(evidence.failures[at]->text, peers);
    if (next < 0 && evidence.waits[at]) next = evidence.waits[at]->peer;
    if (next < 0 || static_cast<size_t>(next) >= peers.size()) return rank;
    rank = next;
  }
  return -1;
}

std::string verdict(const Evidence& evidence, size_t own, const std::vector<std::string>& peers) {
  if (const int first = evidence.first_cause(); first >= 0)
    return fmt::format("{} failed first: {}", peers[static_cast<size_t>(first)],
                       evidence.failures[static_cast<size_t>(first)]->text);
  const std::vector<size_t> order = witnesses(evidence, own);
  for (const size_t rank : order) {
    const int lost = lost_in(evidence.failures[rank]->text, peers);
    if (lost >= 0 && !evidence.failures[static_cast<size_t>(lost)])
      return fmt::format(
          "{} was lost: its process ended without a word (killed, out of memory, or the machine is gone)",
          peers[static_cast<size_t>(lost)]);
  }
  if (const auto text = disagreement_in(evidence, peers)) return *text;
  for (const size_t rank : order) {
    const int silent = silent_in(evidence.failures[rank]->text, peers);
    if (silent < 0) continue;
    if (const int end = end_of_chain(silent, evidence, peers); end >= 0 && end != static_cast<int>(own))
      return fmt::format("{} does not answer: stopped, hanging, or cut off from the network",
                         peers[static_cast<size_t>(end)]);
  }
  return evidence.failures[own]->text;
}

}  // namespace

void publish_wait(Store& store, int rank, const std::optional<PublishedWait>& wait) {
  nlohmann::json json;
  if (wait)
    json = {{"sequence", wait->sequence}, {"name", wait->name}, {"bytes", wait->bytes}, {"peer", wait->peer}};
  store.set(wait_key(rank), json_text(json));
}

std::optional<PublishedWait> read_wait(Store& store, int rank) {
  const std::optional<std::string> text = store.get(wait_key(rank), Milliseconds(0));
  if (!text) return {};
  const nlohmann::json json = nlohmann::json::parse(*text, nullptr, false);
  try {
    if (json.is_object())
      return PublishedWait{json.at("sequence").get<uint64_t>(), json.at("name").get<std::string>(),
                           json.at("bytes").get<int64_t>(), json.at("peer").get<int>()};
  } catch (const nlohmann::json::exception&) {
  }
  return {};
}

std::optional<std::string> disagreement(const std::string& peer, int rank, const PublishedWait& wait,
                                        const std::string& other_peer, int other_rank,
                                        const PublishedWait& other) {
  const bool same = wait.sequence == other.sequence;
  // A process may be behind another one, but then it does not wait for that one, which has already sent.
  const bool each_other = wait.peer == other_rank && other.peer == rank;
  if ((same && wait.name != other.name) || (each_other && (!same || wait.bytes != other.bytes)))
    return fmt::format("{} is in {}, {} in {}: the processes do not run the same program", peer,
                       collective_text(wait), other_peer, collective_text(other));
  return {};
}

std::string lost_connection_text(const std::string& peer, const std::string& where,
                                 const std::string& reason) {
  return fmt::format("the connection to {} was lost{}: {}", peer, where, reason);
}

std::string no_answer_text(const std::string& peer, bool sends, Milliseconds time, const std::string& where) {
  const std::string seconds = time.count() % 1000 == 0 ? fmt::format("{} s", time.count() / 1000)
                                                       : fmt::format("{} ms", time.count());
  return fmt::format("{} has {} nothing for {}{}", peer, sends ? "taken" : "sent", seconds, where);
}

std::string root_cause(Store& store, int rank, const std::vector<std::string>& peers, const Error& own,
                       Milliseconds patience) noexcept {
  if (own.kind() != ErrorKind::kPeerLost) return own.what();
  const auto at = static_cast<size_t>(rank);
  try {
    return verdict(gather_evidence(store, peers.size(), at, own, patience), at, peers);
  } catch (const std::exception&) {
    // If the store is lost, so is the process that serves it, which is usually process 0.
    if (lost_in(own.what(), peers) == 0)
      return peers[0] +
             " was lost: its process ended without a word (killed, out of memory, or the machine is gone)";
    return fmt::format("{}; process 0, or the launcher that serves the store, is gone, too", own.what());
  }
}

}  // namespace mtf
