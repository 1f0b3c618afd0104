// Parameter servers in threads of a test, with variables of one number each, and what their workers do.
//
//   Server server({0}, quick(1));
//   ParameterClient client(worker(0, {server.address()}));
//   start(client, {});
#pragma once

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/comm/parameters/parameter_client.h"
#include "engine/comm/parameters/parameter_service.h"

namespace mtf::parameter_run {

using std::chrono::milliseconds;

/// A storage of variables with one number each; an update subtracts the sum of the gradients.
class Numbers final : public ParameterStorage {
 public:
  explicit Numbers(std::vector<uint32_t> ids)
      : ids_(std::move(ids)), values_(ids_.size()), sums_(ids_.size()) {}

  std::span<std::byte> variable(uint32_t id) override {
    for (size_t i = 0; i < ids_.size(); ++i) {
      if (ids_[i] == id) return std::as_writable_bytes(std::span(&values_[i], 1));
    }
    return {};
  }
  void set_begin(uint32_t id, int64_t step) override { begins[id] = step; }
  size_t gradients() const override { return ids_.size(); }
  std::vector<PushedPart> pushed_parts(int) const override {
    std::vector<PushedPart> parts;
    for (size_t i = 0; i < ids_.size(); ++i) parts.push_back({i, sizeof(double)});
    return parts;
  }
  void add(size_t gradient, std::span<const PushedTensors* const> workers) override {
    if (is_exhausted) throw std::bad_alloc();
    sums_[gradient] = 0;
    for (const PushedTensors* pushed : workers)
      sums_[gradient] += *reinterpret_cast<const double*>((*pushed)[gradient].data());
  }
  std::vector<double> squares() override {
    std::vector<double> squares;
    for (const double sum : sums_) squares.push_back(sum * sum);
    return squares;
  }
  Outcome update(int64_t, double rate_scale, double loss, std::span<const double> squares) override {
    double norm = 0;
    for (const double square : squares) norm += square;
    if (!std::isfinite(loss)) return {norm, false};
    for (size_t i = 0; i < ids_.size(); ++i) values_[i] -= rate_scale * sums_[i];
    return {norm, true};
  }
  double value(size_t i) const { return values_[i]; }

  std::atomic<bool> is_exhausted = false;  ///< there is no memory for sums
  std::map<uint32_t, int64_t> begins;      ///< by id: the steps that the chief has said

 private:
  std::vector<uint32_t> ids_;
  std::vector<double> values_, sums_;
};

/// A server that runs in a thread.
class Server {
 public:
  Server(std::vector<uint32_t> ids, ParameterServiceOptions options, const Access& access = {})
      : numbers(std::move(ids)) {
    options.log = [this](const std::string& line) {
      const std::lock_guard lock(mutex_);
      log_ += line + "\n";
    };
    options.squares = 2;
    if (options.fields.empty()) options.fields = {{"program", "p"}, {"seed", "1"}};
    service_ = std::make_unique<ParameterService>(FramedListener({"127.0.0.1", 0}, access, kParameterPurpose),
                                                  numbers, std::move(options));
    end_ = std::async(std::launch::async, [this]() -> std::string {
      try {
        return service_->serve() ? "ended" : "stopped";
      } catch (const Error& error) {
        return error.what();
      }
    });
  }
  std::string address() const { return fmt::format("127.0.0.1:{}", service_->port()); }
  int port() const { return service_->port(); }
  /// Returns how serve() ended: "ended", "stopped" (before the run), or its error.
  std::string end() { return end_.get(); }
  std::string log() {
    const std::lock_guard lock(mutex_);
    return log_;
  }

  Numbers numbers;

 private:
  std::mutex mutex_;
  std::string log_;
  std::unique_ptr<ParameterService> service_;
  std::future<std::string> end_;
};

inline ParameterServiceOptions quick(int workers, bool asynchronous = false) {
  ParameterServiceOptions options;
  options.workers = workers;
  options.asynchronous = asynchronous;
  options.connect_timeout = options.collective_timeout = milliseconds(3000);
  return options;
}

inline ParameterClientOptions worker(int number, std::vector<std::string> servers) {
  return {.servers = std::move(servers),
          .worker = number,
          .fields = {{"program", "p"}, {"seed", "1"}},
          .connect_timeout = milliseconds(3000),
          .collective_timeout = milliseconds(3000)};
}

inline std::span<const std::byte> bytes_of(const double& value) {
  return std::as_bytes(std::span(&value, 1));
}

/// Runs one synchronous step of a worker, with servers that have one variable each.
inline void step(ParameterClient& client, bool chief, int64_t version, double gradient) {
  for (int server = 0; server < client.servers(); ++server)
    client.push(server, 0, version, bytes_of(gradient));
  if (!chief) return;
  std::vector<double> squares;
  for (const auto& of_server : client.squares(version))
    squares.insert(squares.end(), of_server.begin(), of_server.end());
  squares.resize(2);
  client.update({.step = version, .loss = 1, .tokens = 2}, squares);
}

inline void start(ParameterClient& client, const ParameterStart& at) {
  for (int server = 0; server < client.servers(); ++server)
    client.set(server, static_cast<uint32_t>(server), bytes_of(10.0 * (server + 1)));
  client.start(at);
}

inline std::vector<PulledVariable> everything(ParameterClient& client, std::vector<double>& values) {
  std::vector<PulledVariable> variables;
  for (int server = 0; server < client.servers(); ++server)
    variables.push_back(
        {server, static_cast<uint32_t>(server), std::as_writable_bytes(std::span(&values[server], 1))});
  return variables;
}

}  // namespace mtf::parameter_run
