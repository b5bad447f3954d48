#include "chapters/04_zero/zero_plus_plus/zero_plus_plus_volume.hpp"

#include <optional>

#include "chapters/04_zero/shards/shard_groups.hpp"
#include "common/base/numeric.hpp"

namespace ultra::zero {
namespace {

/// N, n, K and the rank's place, as counts.
struct RankSite {
  std::size_t ranks;
  std::size_t node;  // ranks of a node
  std::size_t nodes;
  bool last_of_node;
};

RankSite site_of(const RankOfMany& rank, const std::optional<std::size_t>& node_size) {
  const auto ranks = checked_cast<std::size_t>(rank.ranks);
  const std::size_t node = node_size.value_or(ranks);
  expect_nodes(ranks, node);
  return {.ranks = ranks,
          .node = node,
          .nodes = ranks / node,
          .last_of_node = (checked_cast<std::size_t>(rank.rank) + 1) % node == 0};
}

std::size_t travelling_bytes(std::size_t shard, DType dtype,
                             const std::optional<BlockFormat>& format) {
  return format ? quantized_bytes(*format, shard, dtype) : shard * size_of(dtype);
}

SentBytes ring(const RankSite& at, std::size_t bytes) {
  const std::size_t total = (at.ranks - 1) * bytes;
  return {.total = total, .between = at.nodes > 1 && at.last_of_node ? total : 0};
}

SentBytes to_everybody(const RankSite& at, std::size_t bytes) {
  return {.total = (at.ranks - 1) * bytes, .between = (at.ranks - at.node) * bytes};
}

SentBytes in_two_steps(const RankSite& at, std::size_t bytes) {
  const std::size_t between = (at.nodes - 1) * bytes;
  return {.total = (at.node - 1) * at.nodes * bytes + between, .between = between};
}

SentBytes second_gather(const RankSite& at, std::size_t bytes, const ZeroPlusPlus& how,
                        Reshard reshard) {
  if (reshard == Reshard::kAfterBackward) return {};
  if (how.secondary == SecondaryShards::kNone) return ring(at, bytes);
  return {.total = (at.node - 1) * at.nodes * bytes, .between = 0};
}

}  // namespace

StepVolume sent_in_micro_batch(std::span<const FlatLayout> units, DType dtype,
                               const ZeroPlusPlus& how, const RankOfMany& rank, Reshard reshard,
                               memory::Embeddings embeddings) {
  const RankSite at = site_of(rank, how.node_size);
  const bool two_steps = how.gradients && at.node > 1 && at.nodes > 1;
  const bool tied = embeddings == memory::Embeddings::kTied && reshard == Reshard::kAfterForward;
  StepVolume volume;
  for (const FlatLayout& unit : units) {
    const bool stays =
        &unit == units.data() && !tied;  // the head, at the forward-backward boundary
    const std::size_t passes = tied && &unit == &units.back() ? 2 : 1;
    const std::size_t weights = travelling_bytes(unit.shard, dtype, how.weights);
    const std::size_t gradients = travelling_bytes(unit.shard, dtype, how.gradients);
    for (std::size_t pass = 0; pass < passes; ++pass) {
      volume.forward += ring(at, weights);
      if (!stays) volume.backward += second_gather(at, weights, how, reshard);
    }
    volume.reduce += two_steps ? in_two_steps(at, gradients) : to_everybody(at, gradients);
  }
  return volume;
}

NodeVolume volume_between_nodes(const ZeroPlusPlus& how, int base_bits) {
  const auto part = [&](const std::optional<BlockFormat>& format) {
    return format ? static_cast<double>(static_cast<int>(format->bits)) / base_bits : 1.0;
  };
  return {.forward = part(how.weights),
          .backward = how.secondary == SecondaryShards::kInNode ? 0 : part(how.weights),
          .reduce = part(how.gradients)};
}

}  // namespace ultra::zero
