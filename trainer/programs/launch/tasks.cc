#include "trainer/programs/launch/tasks.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "engine/base/error.h"

namespace mtf {
namespace {

constexpr std::string_view kThisMachine = "127.0.0.1";

Socket reserve_port() {
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int yes = 1;
  // SO_REUSEADDR is set after bind(), so that bind() chooses a port to which no other socket is bound.
  if (!socket.open() || ::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0)
    throw Error(ErrorKind::kSystem, fmt::format("mtf-launch: no port is free: {}", system_message(errno)));
  return socket;
}

}  // namespace

ReservedPorts::ReservedPorts(int count) {
  for (int i = 0; i < count; ++i) {
    sockets_.push_back(reserve_port());
    numbers_.push_back(port_of(sockets_.back()));
  }
}

std::vector<Task> rank_tasks(int processes, int port) {
  std::vector<Task> tasks;
  const std::string size = fmt::to_string(processes);
  for (int rank = 0; rank < processes; ++rank) {
    const std::string number = fmt::to_string(rank);
    tasks.push_back({.name = "rank " + number,
                     .prefix = fmt::format("[{}] ", number),
                     .environment = {{"RANK", number},
                                     {"WORLD_SIZE", size},
                                     {"LOCAL_RANK", number},
                                     {"LOCAL_WORLD_SIZE", size},
                                     {"MASTER_ADDR", std::string(kThisMachine)},
                                     {"MASTER_PORT", fmt::to_string(port)},
                                     {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                     {kStoreVariable, fmt::format("{}:{}", kThisMachine, port)}},
                     .is_first = rank == 0});
  }
  return tasks;
}

std::vector<Task> job_tasks(const JobSizes& jobs, const std::vector<int>& ports) {
  nlohmann::ordered_json cluster;
  auto port = ports.begin();
  for (const auto& [name, count] : jobs)
    for (int i = 0; i < count; ++i) cluster[name].push_back(fmt::format("{}:{}", kThisMachine, *port++));
  std::vector<Task> tasks;
  for (const auto& [name, count] : jobs) {
    for (int i = 0; i < count; ++i) {
      const nlohmann::ordered_json config{{"cluster", cluster}, {"task", {{"type", name}, {"index", i}}}};
      Task task{.name = fmt::format("{} {}", name, i),
                .prefix = fmt::format("[{}:{}] ", name, i),
                .environment = {{"TF_CONFIG", config.dump()}}};
      const Launch launch = detect_launch({}, task.environment);
      task.is_first = launch.rank == 0;
      task.serves = launch.role == "ps";
      tasks.push_back(std::move(task));
    }
  }
  return tasks;
}

}  // namespace mtf
