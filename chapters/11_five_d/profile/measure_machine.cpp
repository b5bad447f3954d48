#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "chapters/05_tensor_sequence_parallel/sequence_region.hpp"
#include "chapters/11_five_d/profile/machine_profile.hpp"
#include "common/base/numeric.hpp"
#include "common/ops/attention.hpp"
#include "common/ops/elementwise.hpp"
#include "common/ops/matmul.hpp"
#include "common/ops/rms_norm.hpp"
#include "common/ops/rope.hpp"
#include "common/ops/swiglu.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra::profile {
namespace {

using ops::Transpose;
using ops::Write;

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

/// Of tensors that were written long ago: more than a core's own caches hold.
constexpr std::size_t kWorkingBytes = std::size_t{16} << 20U;
constexpr std::size_t kMostTensors = 64;
/// No link is faster than 1 TB/s.
constexpr double kLeastSecondsOfByte = 1e-12;

/// Rows are tokens of a micro-batch; the other sides are widths of a model or of a rank's part.
constexpr std::array<std::size_t, 3> kRows = {16, 128, 512};
constexpr std::array<std::size_t, 4> kWidths = {16, 64, 256, 768};

/// Tensors of one shape that come from the memory: used in turn, so that each has left the caches
/// before it returns.
class InTurn {
 public:
  InTurn(const Shape& shape, DType dtype) {
    const std::size_t bytes = shape.numel() * size_of(dtype);
    const std::size_t count =
        std::clamp<std::size_t>(kWorkingBytes / bytes, std::size_t{2}, kMostTensors);
    for (std::size_t i = 0; i < count; ++i) {
      all_.push_back(Tensor::zeros(Device::cpu(), shape, dtype));
    }
  }
  const Tensor& next() { return all_[++last_ % all_.size()]; }

 private:
  std::vector<Tensor> all_;
  std::size_t last_ = 0;
};

double product_speed(const Communicator& world, DType dtype, std::size_t m, std::size_t k,
                     std::size_t n) {
  const Tensor x = Tensor::zeros(Device::cpu(), {m, k}, dtype);
  const Tensor d_y = Tensor::zeros(Device::cpu(), {m, n}, dtype);
  InTurn saved({m, k}, dtype);
  InTurn weights({n, k}, dtype);
  InTurn gradients({n, k}, dtype);
  const double seconds = seconds_of(world, [&] {
    const Tensor& weight = weights.next();
    static_cast<void>(ops::matmul(x, Transpose::kNo, weight, Transpose::kYes));
    static_cast<void>(ops::matmul(d_y, Transpose::kNo, weight, Transpose::kNo));
    ops::matmul_into(gradients.next(), d_y, Transpose::kYes, saved.next(), Transpose::kNo,
                     Write::kAccumulate);
  });
  constexpr double kProducts = 3;
  return kProducts * 2 * real(m * k) * real(n) / seconds;
}

std::vector<std::int32_t> positions_of(const BlockExtents& block) {
  std::vector<std::int32_t> positions(block.seq);
  std::iota(positions.begin(), positions.end(), 0);
  return positions;
}

/// Seconds of an all-gather or a reduce-scatter of activations, of which each rank has so many tokens
/// of so many sequences.
double exchange_of(const Communicator& world, const Communicator& group, const BlockExtents& block,
                   std::size_t batch, std::size_t local) {
  const auto ranks = checked_cast<std::size_t>(group.size());
  const std::size_t hidden = block.model.hidden_size;
  const Tensor part = Tensor::zeros(Device::cpu(), {batch, local, hidden}, block.dtype);
  const Tensor whole = Tensor::zeros(Device::cpu(), {batch, local * ranks, hidden}, block.dtype);
  tensor_parallel::SequenceRegion region(group);
  constexpr int kTimes = 4;
  const auto both = [&] {
    static_cast<void>(region.enter(part).wait());
    static_cast<void>(region.leave(whole).wait());
  };
  return exchange_seconds(world, both, kTimes) / 2;
}

/// Matrix products of many shapes, each made as training makes it: forward, for the gradient of its
/// input, and for that of its weights. Collective.
std::vector<ProductSpeed> measure_products(const Communicator& world, DType dtype) {
  std::vector<ProductSpeed> products;
  for (const std::size_t m : kRows) {
    for (const std::size_t k : kWidths) {
      for (const std::size_t n : kWidths) {
        products.push_back({.m = m, .k = k, .n = n, .flops = product_speed(world, dtype, m, k, n)});
      }
    }
  }
  return products;
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

double measure_attention(const Communicator& world, const BlockExtents& block) {
  const std::size_t head_dim = block.model.head_dim();
  const Shape query_shape = {block.batch, block.seq, block.model.num_heads, head_dim};
  const Shape key_shape = {block.batch, block.seq, block.model.num_kv_heads, head_dim};
  const Tensor query = Tensor::zeros(Device::cpu(), query_shape, block.dtype);
  const Tensor key = Tensor::zeros(Device::cpu(), key_shape, block.dtype);
  InTurn saved(query_shape, block.dtype);
  InTurn saved_keys(key_shape, block.dtype);
  const ops::AttentionOptions options{.scale = 1 / std::sqrt(real(head_dim))};
  const double seconds = seconds_of(world, [&] {
    const ops::AttentionResult result = ops::attention(query, key, key, options);
    static_cast<void>(ops::attention_backward(query, saved.next(), saved_keys.next(),
                                              saved_keys.next(), saved.next(), result.log_sum_exp,
                                              options));
  });
  constexpr double kBothWays = 1 + 2.5;
  const double flop = 4 * block.tokens() * real(block.seq) * real(block.model.hidden_size) / 2;
  return kBothWays * flop / seconds;
}

double measure_elementwise(const Communicator& world, const BlockExtents& block) {
  const nn::ModelConfig& model = block.model;
  const auto zeros = [&](const Shape& shape) {
    return Tensor::zeros(Device::cpu(), shape, block.dtype);
  };
  const Shape hidden_shape = {block.batch, block.seq, model.hidden_size};
  const Shape inside_shape = {block.batch, block.seq, model.ffn_hidden_size};
  const Tensor hidden = zeros(hidden_shape);
  const Tensor inside = zeros(inside_shape);
  const Tensor heads = zeros({block.batch, block.seq, model.num_heads, model.head_dim()});
  const Tensor keys = zeros({block.batch, block.seq, model.num_kv_heads, model.head_dim()});
  const Tensor weight = zeros({model.hidden_size});
  const Tensor d_weight = zeros({model.hidden_size});
  InTurn saved(hidden_shape, block.dtype);
  InTurn saved_inside(inside_shape, block.dtype);
  const ops::RopeTable table(Device::cpu(), block.dtype, model.head_dim(), block.seq,
                             model.rope_theta);
  const std::vector<std::int32_t> positions = positions_of(block);

  const auto norm_and_sum = [&] {
    const auto [y, reciprocal] = ops::rms_norm(hidden, weight, model.norm_epsilon);
    static_cast<void>(ops::add(y, hidden));
    const Tensor d_x = ops::rms_norm_backward(hidden, saved.next(), weight, reciprocal, d_weight,
                                              Write::kAccumulate);
    ops::add_into(d_x, hidden);
  };
  const double seconds = seconds_of(world, [&] {
    norm_and_sum();
    for (const auto rotation : {ops::Rotation::kForward, ops::Rotation::kBackward}) {
      ops::rope_into(heads, table, positions, rotation);
      ops::rope_into(keys, table, positions, rotation);
    }
    norm_and_sum();
    static_cast<void>(ops::swiglu(inside, inside));
    static_cast<void>(ops::swiglu_backward(inside, saved_inside.next(), saved_inside.next()));
  });
  const double e = real(size_of(block.dtype));
  constexpr double kBetween = 10 + 12;
  constexpr double kInside = 3 + 5;
  const double inside_width = kInside * real(model.ffn_hidden_size) +
                              2 * 2 * real(model.hidden_size + model.kv_hidden_size());
  return e * block.tokens() * (kBetween * real(model.hidden_size) + inside_width) / seconds;
}

LinkSpeed measure_exchange(const Communicator& world, const Communicator& group,
                           const BlockExtents& block) {
  const auto ranks = checked_cast<std::size_t>(group.size());
  const std::size_t local = std::max<std::size_t>(2, block.seq / ranks);
  const double steps = real(std::max<std::size_t>(2, ranks) - 1);
  const double shortest = exchange_of(world, group, block, 1, 1) / steps;
  const double longest = exchange_of(world, group, block, block.batch, local) / steps;
  const double bytes =
      real((block.batch * local - 1) * block.model.hidden_size * size_of(block.dtype));
  return {.latency = shortest,
          .bandwidth = bytes / std::max(longest - shortest, bytes * kLeastSecondsOfByte)};
}

double measure_stolen(const Communicator& world, const Communicator& group, DType dtype) {
  constexpr std::size_t kSide = 256;
  constexpr std::size_t kBuckets = 24;
  constexpr std::size_t kBucketBytes = 250'000;  // chapter 03's
  const Tensor factor = Tensor::zeros(Device::cpu(), {kSide, kSide}, dtype);
  std::vector<Tensor> buckets;
  for (std::size_t i = 0; i < kBuckets; ++i) {
    buckets.push_back(Tensor::zeros(Device::cpu(), {kBucketBytes / size_of(dtype)}, dtype));
  }
  const auto multiply = [&] {
    static_cast<void>(ops::matmul(factor, Transpose::kNo, factor, Transpose::kYes));
  };
  const auto pass = [&](int products, bool sums) {
    std::vector<Work> travelling;
    for (const Tensor& bucket : buckets) {
      for (int i = 0; i < products; ++i) multiply();
      if (sums) travelling.push_back(group.all_reduce(bucket));
    }
    for (Work& work : travelling) work.wait();
  };
  const double sums = typical_seconds(world, [&] { pass(0, true); });
  // As long as the sums, which then could hide entirely.
  const int times = 1 + static_cast<int>(sums / seconds_of(world, multiply) / real(kBuckets));
  const double alone = typical_seconds(world, [&] { pass(times, false); });
  const double together = typical_seconds(world, [&] { pass(times, true); });
  return std::clamp((together - alone) / sums, 0.0, 1.0);
}

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
