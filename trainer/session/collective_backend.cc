#include "trainer/session/collective_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <string_view>
#include <vector>

#include "engine/backend/device_plugin.h"
#include "engine/base/process.h"
#include "trainer/session/session.h"

namespace mtf {
namespace {

/// What a process knows about its own use of NCCL. Each text is one line.
struct BackendFacts {
  std::string machine, gpu;
  std::string nccl;      ///< version of NCCL; empty if it was not queried or is not available
  std::string obstacle;  ///< the reason why it cannot use NCCL; empty if it can
  bool insists = false;  ///< true if the configuration requires NCCL

  std::string to_text() const {
    return fmt::format("{}\n{}\n{}\n{}\n{}", machine, gpu, nccl, insists ? "nccl" : "", obstacle);
  }
  static BackendFacts of_text(const std::string& text) {
    BackendFacts facts;
    std::istringstream lines(text);
    std::string insists;
    std::getline(lines, facts.machine);
    std::getline(lines, facts.gpu);
    std::getline(lines, facts.nccl);
    std::getline(lines, insists);
    std::getline(lines, facts.obstacle);
    facts.insists = !insists.empty();
    return facts;
  }
};

/// Lets processes that share a GPU use NCCL, so that it can be tested on one GPU. NVIDIA does not support that.
constexpr const char* kSharedGpuVariable = "MTF_NCCL_SHARED_GPU";

bool may_share_gpus() {
  const char* value = std::getenv(kSharedGpuVariable);
  return value != nullptr && std::string_view(value) == "1";
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

BackendFacts own_facts(const Session& session) {
  const Collectives collectives = session.config.cluster.collectives;
  BackendFacts facts{.machine = machine_id(),
                     .gpu = session.backend->device_info()->pci,
                     .nccl = {},
                     .obstacle = {},
                     .insists = collectives == Collectives::kNccl};
  if (may_share_gpus()) facts.gpu += fmt::format(" of rank {}", session.processes->rank());
  if (collectives == Collectives::kGloo) {
    facts.obstacle = "`cluster.collectives: gloo`";
  } else {
    try {
      facts.nccl = device_plugin().collectives_version();
    } catch (const Error& error) {
      facts.obstacle = first_line(error.problems().front().message);
    }
  }
  return facts;
}

/// Returns the reason why NCCL cannot be used; empty if all processes can use it.
std::string obstacle_of(const std::vector<BackendFacts>& all) {
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (!all[rank].obstacle.empty()) return fmt::format("rank {}: {}", rank, all[rank].obstacle);
  }
  for (size_t rank = 0; rank < all.size(); ++rank) {
    for (size_t other = 0; other < rank; ++other) {
      if (all[rank].machine == all[other].machine && all[rank].gpu == all[other].gpu)
        return fmt::format("ranks {} and {} share GPU {}", other, rank, all[rank].gpu);
    }
  }
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank].nccl != all[0].nccl)
      return fmt::format("rank {} has {}, rank 0 {}", rank, all[rank].nccl, all[0].nccl);
  }
  return {};
}

}  // namespace

bool expects_nccl(const Session& session) {
  if (!session.collective_backend.description.empty())
    return session.collective_backend.communicator != nullptr;
  if (hosting_of(session.config).processes == 1 || session.backend->is_host()) return false;
  if (session.config.machine)
    return session.config.cluster.collectives != Collectives::kGloo;  // its GPUs need not be here
  return own_facts(session).obstacle.empty();
}

CollectiveBackend choose_collective_backend(const Session& session) {
  ProcessGroup& processes = *session.processes;
  if (processes.size() == 1 || session.backend->is_host()) return {};
  const BackendFacts own = own_facts(session);
  std::vector<BackendFacts> all;
  for (const std::string& text : all_gather(processes.communicator(), own.to_text(), "GPUs"))
    all.push_back(BackendFacts::of_text(text));
  const std::string obstacle = obstacle_of(all);
  if (!obstacle.empty()) {
    if (!std::ranges::any_of(all, &BackendFacts::insists))
      return {nullptr, fmt::format("collectives: Gloo, through the host ({})", obstacle)};
    throw Error(ErrorKind::kConfig, session.config.mark("cluster.collectives"),
                fmt::format("`cluster.collectives: nccl` cannot be ({})", obstacle), "`auto`, or `gloo`");
  }
  // NCCL refuses two ranks of one GPU on one host.
  if (may_share_gpus()) ::setenv("NCCL_HOSTID", fmt::format("rank-{}", session.processes->rank()).c_str(), 1);
  const ClusterConfig& cluster = session.config.cluster;
  return {device_plugin().make_communicator(*session.backend, processes.communicator(),
                                            {.connect = in_milliseconds(cluster.connect_timeout),
                                             .collective = in_milliseconds(cluster.collective_timeout)}),
          fmt::format("collectives: {}, from GPU to GPU{}", own.nccl,
                      may_share_gpus() ? fmt::format(" ({}=1: only for tests)", kSharedGpuVariable) : "")};
}

}  // namespace mtf
