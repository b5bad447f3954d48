#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "chapters/11_five_d/profile/machine_profile.hpp"
#include "common/base/interrupt.hpp"
#include "common/base/numeric.hpp"
#include "common/ops/matmul.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra::profile {
namespace {

using Clock = std::chrono::steady_clock;
using ops::Transpose;

/// A measurement runs at least so long, so often; the fastest round counts.
constexpr double kRoundSeconds = 0.01;
constexpr int kRounds = 3;
/// Of the array that measures the memory: more than caches hold.
constexpr std::size_t kMemoryBytes = std::size_t{64} << 20U;
constexpr std::size_t kMessageBytes = std::size_t{4} << 20U;

/// Rows are tokens of a micro-batch; the other sides are widths of a model or of a rank's part.
constexpr std::array<std::size_t, 3> kRows = {16, 128, 1024};
constexpr std::array<std::size_t, 4> kWidths = {16, 64, 192, 576};

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Seconds of one call on the slowest rank. Collective.
double seconds_of(const Communicator& world, const std::function<void()>& call) {
  double fastest = std::numeric_limits<double>::max();
  for (int round = 0; round < kRounds; ++round) {
    throw_if_interrupted();
    world.barrier();
    const auto begin = Clock::now();
    int calls = 0;
    while (calls == 0 || seconds_since(begin) < kRoundSeconds) {
      call();
      ++calls;
    }
    fastest = std::min(fastest, seconds_since(begin) / calls);
  }
  const Tensor slowest = Tensor::from<double>(Device::cpu(), {1}, std::vector{fastest}).clone();
  world.all_reduce(slowest, ReduceOp::kMax);
  return slowest.to_vector().front();
}

/// Seconds of one exchange that all ranks of a group make together: as often on each. Collective.
double exchange_seconds(const Communicator& group, const std::function<void()>& exchange,
                        int times) {
  double fastest = std::numeric_limits<double>::max();
  for (int round = 0; round < kRounds; ++round) {
    throw_if_interrupted();
    group.barrier();
    const auto begin = Clock::now();
    for (int i = 0; i < times; ++i) exchange();
    fastest = std::min(fastest, seconds_since(begin) / times);
  }
  const Tensor slowest = Tensor::from<double>(Device::cpu(), {1}, std::vector{fastest}).clone();
  group.all_reduce(slowest, ReduceOp::kMax);
  return slowest.to_vector().front();
}

std::vector<ProductSpeed> measure_products(const Communicator& world, DType dtype) {
  const Device device = Device::cpu();
  std::vector<ProductSpeed> products;
  for (const std::size_t m : kRows) {
    for (const std::size_t k : kWidths) {
      for (const std::size_t n : kWidths) {
        const Tensor a = Tensor::zeros(device, {m, k}, dtype);
        const Tensor b = Tensor::zeros(device, {n, k}, dtype);
        const double seconds = seconds_of(
            world, [&] { static_cast<void>(ops::matmul(a, Transpose::kNo, b, Transpose::kYes)); });
        const double operations = 2.0 * static_cast<double>(m * k) * static_cast<double>(n);
        products.push_back({.m = m, .k = k, .n = n, .flops = operations / seconds});
      }
    }
  }
  return products;
}

/// Bytes per second, read and written.
double measure_memory(const Communicator& world) {
  const Device device = Device::cpu();
  const std::size_t count = kMemoryBytes / sizeof(float);
  const Tensor from = Tensor::zeros(device, {count}, DType::kF32);
  const Tensor to = Tensor::zeros(device, {count}, DType::kF32);
  return 2.0 * static_cast<double>(kMemoryBytes) / seconds_of(world, [&] { to.copy_from(from); });
}

double measure_call(const Communicator& world) {
  const Device device = Device::cpu();
  const Tensor a = Tensor::zeros(device, {1, 1}, DType::kF32);
  return seconds_of(world,
                    [&] { static_cast<void>(ops::matmul(a, Transpose::kNo, a, Transpose::kYes)); });
}

/// Every rank of a group sends to the next one at once.
LinkSpeed measure_link(const Communicator& group) {
  const Device device = Device::cpu();
  const auto shift_seconds = [&](std::size_t bytes, int times) {
    const Tensor send = Tensor::zeros(device, {bytes / sizeof(float)}, DType::kF32);
    const Tensor receive = Tensor::zeros(device, {bytes / sizeof(float)}, DType::kF32);
    return exchange_seconds(
        group, [&] { group.ring_shift(send, receive); }, times);
  };
  const double empty = shift_seconds(sizeof(float), 50);
  const double full = shift_seconds(kMessageBytes, 2);
  const double moving = std::max(full - empty, 1e-9);
  return {.latency = empty, .bandwidth = static_cast<double>(kMessageBytes) / moving};
}

/// A number for the machine that this rank is on.
int machine_number() {
  std::array<char, 256> name{};
  static_cast<void>(::gethostname(name.data(), name.size() - 1));
  return static_cast<int>(std::hash<std::string>()(name.data()) % 1'000'003);
}

/// The machine of each rank. Collective.
std::vector<int> machines_of(const Communicator& world) {
  const std::vector<double> own = {static_cast<double>(machine_number())};
  const Tensor all =
      Tensor::zeros(Device::cpu(), {static_cast<std::size_t>(world.size())}, DType::kF64);
  world.all_gather(Tensor::from<double>(Device::cpu(), {1}, own).clone(), all);
  std::vector<int> machines;
  for (const double number : all.to_vector()) machines.push_back(static_cast<int>(number));
  return machines;
}

/// Rank 0's numbers on all ranks.
LinkSpeed as_on_rank_0(const Communicator& world, const LinkSpeed& link) {
  const std::vector<double> own = {link.latency, link.bandwidth};
  const Tensor told = Tensor::from<double>(Device::cpu(), {own.size()}, own).clone();
  world.broadcast(told, 0);
  const std::vector<double> numbers = told.to_vector();
  return {.latency = numbers[0], .bandwidth = numbers[1]};
}

double machine_bytes() {
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long page = ::sysconf(_SC_PAGESIZE);
  return static_cast<double>(pages) * static_cast<double>(page);
}

void measure_links(const Communicator& world, MachineProfile& profile) {
  const std::vector<int> machines = machines_of(world);
  const int own = machines[static_cast<std::size_t>(world.rank())];
  profile.ranks_per_node = checked_cast<int>(std::ranges::count(machines, machines.front()));
  const Communicator node = world.split(own, world.rank(), "machine");
  const LinkSpeed memory{.latency = profile.call_seconds, .bandwidth = profile.memory_bandwidth};
  profile.intra = as_on_rank_0(world, node.size() > 1 ? measure_link(node) : memory);
  // Ranks with the same number on their machines: a ring that crosses at every step.
  const Communicator across = world.split(node.rank(), world.rank(), "across machines");
  const bool crosses = profile.ranks_per_node < world.size();
  profile.inter = as_on_rank_0(world, crosses ? measure_link(across) : profile.intra);
}

}  // namespace

MachineProfile measure_machine(const Communicator& world, DType dtype) {
  MachineProfile profile;
  profile.products = measure_products(world, dtype);
  profile.memory_bandwidth = measure_memory(world);
  profile.call_seconds = measure_call(world);
  measure_links(world, profile);
  profile.memory_bytes = machine_bytes() / profile.ranks_per_node;
  return profile;
}

}  // namespace ultra::profile
