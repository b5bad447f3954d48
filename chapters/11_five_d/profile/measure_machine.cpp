#include <unistd.h>

#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <vector>

#include "chapters/11_five_d/profile/machine_profile.hpp"
#include "chapters/11_five_d/profile/measure_parts.hpp"
#include "chapters/11_five_d/profile/timing.hpp"
#include "common/base/numeric.hpp"
#include "common/ops/matmul.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra::profile {
namespace {

using ops::Transpose;

/// Of the array that measures the memory: more than caches hold.
constexpr std::size_t kMemoryBytes = std::size_t{64} << 20U;

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

/// Some 50 milliseconds of products, as every rank of a training has them at the same time.
double measure_straggler(const Communicator& world, DType dtype) {
  constexpr std::size_t kSide = 256;
  constexpr int kProducts = 100;
  const Tensor a = Tensor::zeros(Device::cpu(), {kSide, kSide}, dtype);
  return deviation_of(world, [&] {
    for (int i = 0; i < kProducts; ++i) {
      static_cast<void>(ops::matmul(a, Transpose::kNo, a, Transpose::kYes));
    }
  });
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
  world.all_gather(Tensor::from<double>(Device::cpu(), {1}, own).clone(), all).wait();
  std::vector<int> machines;
  for (const double number : all.to_vector()) machines.push_back(static_cast<int>(number));
  return machines;
}

/// Rank 0's numbers on all ranks.
LinkSpeed as_on_rank_0(const Communicator& world, const LinkSpeed& link) {
  const std::vector<double> own = {link.latency, link.bandwidth};
  const Tensor told = Tensor::from<double>(Device::cpu(), {own.size()}, own).clone();
  world.broadcast(told, 0).wait();
  const std::vector<double> numbers = told.to_vector();
  return {.latency = numbers[0], .bandwidth = numbers[1]};
}

double machine_bytes() {
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long page = ::sysconf(_SC_PAGESIZE);
  return static_cast<double>(pages) * static_cast<double>(page);
}

void measure_links(const Communicator& world, const BlockExtents& block, MachineProfile& profile) {
  const std::vector<int> machines = machines_of(world);
  const auto machine_of = [&](int rank) { return machines[static_cast<std::size_t>(rank)]; };
  profile.ranks_per_node = checked_cast<int>(std::ranges::count(machines, machines.front()));
  const Communicator node = world.split(machine_of, "machine");
  const LinkSpeed memory{.latency = profile.call_seconds, .bandwidth = profile.memory_bandwidth};
  profile.intra = as_on_rank_0(
      world, profile.ranks_per_node > 1 ? measure_exchange(world, node, block) : memory);
  // Ranks with the same number on their machines: a ring that crosses at every step.
  const auto number_there = [&](int rank) {
    return checked_cast<int>(
        std::count(machines.begin(), machines.begin() + rank, machine_of(rank)));
  };
  const Communicator across = world.split(number_there, "across machines");
  const bool crosses = profile.ranks_per_node < world.size();
  profile.inter =
      as_on_rank_0(world, crosses ? measure_exchange(world, across, block) : profile.intra);
  if (!crosses) return;
  // All ranks of a machine have sent at once: its NIC carries what they sent together.
  profile.inter.bandwidth *= profile.ranks_per_node;
  profile.network_steals = measure_stolen(world, across, block.dtype);
}

}  // namespace

MachineProfile measure_machine(const Communicator& world, const BlockExtents& block) {
  MachineProfile profile;
  profile.products = measure_products(world, block.dtype);
  profile.memory_bandwidth = measure_memory(world);
  profile.elementwise = measure_elementwise(world, block);
  profile.attention_flops = measure_attention(world, block);
  profile.call_seconds = measure_call(world);
  profile.straggler = measure_straggler(world, block.dtype);
  measure_links(world, block, profile);
  profile.memory_bytes = machine_bytes() / profile.ranks_per_node;
  return profile;
}

}  // namespace ultra::profile
