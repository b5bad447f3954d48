#include "chapters/08_expert_parallel/moe/capacity.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "common/tensor/host_view.hpp"

namespace ultra::expert_parallel {
namespace {

/// [seq] the positions of this rank's tokens.
Tensor positions_of(const LocalTokens& tokens) {
  const Tensor positions = Tensor::empty(Device::cpu(), {tokens.seq}, DType::kI32);
  const std::span<std::int32_t> values = positions.span<std::int32_t>();
  if (tokens.positions.empty()) {
    std::iota(values.begin(), values.end(), 0);
  } else {
    std::ranges::copy(tokens.positions, values.begin());
  }
  return positions;
}

/// What every rank has, one after the other.
Tensor gathered(const Tensor& own, const Communicator& ranks, const char* label) {
  if (ranks.size() == 1) return own;
  Tensor all = Tensor::empty(own.device(), {static_cast<std::size_t>(ranks.size()) * own.numel()},
                             own.dtype(), MemoryCategory::kCommunication);
  ranks.labeled(label).all_gather(own, all).wait();
  return all;
}

/// The choices of the sequences of a micro-batch, of all ranks that share them.
class SharedSequences {
 public:
  SharedSequences(const Tensor& destinations, const LocalTokens& tokens, const Communicator& cp)
      : tokens_(tokens),
        top_k_(destinations.size(1)),
        all_(gathered(destinations, cp, "choices")),
        order_(static_cast<std::size_t>(cp.size()) * tokens.seq) {
    // Elements of sequence 0; those of the others stand in the same order.
    const Tensor positions = gathered(positions_of(tokens), cp, "positions");
    const std::span<const std::int32_t> at = positions.span<std::int32_t>();
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    std::ranges::stable_sort(order_, {}, [at](std::size_t i) { return at[i]; });
  }

  void drop(std::size_t num_experts, std::size_t capacity) {
    std::vector<std::size_t> order(order_.size());
    const HostView<std::int32_t> choices(all_, HostAccess::kReadWrite);
    for (std::size_t s = 0; s < tokens_.batch; ++s) {
      for (std::size_t i = 0; i < order.size(); ++i) order[i] = token(order_[i], s);
      keep_places(choices.span(), top_k_, order, num_experts, capacity);
    }
  }

  /// This rank's choices.
  void copy_own_to(const Tensor& destinations, int rank) const {
    if (destinations.shares_storage(all_)) return;
    const std::size_t count = destinations.numel();
    const std::size_t begin = static_cast<std::size_t>(rank) * count;
    destinations.view({count}).copy_from(
        all_.view({all_.numel()}).slice(0, {begin, begin + count}));
  }

 private:
  /// Where a token stands among those of all ranks, each of which has [batch, seq] of them.
  [[nodiscard]] std::size_t token(std::size_t of_sequence, std::size_t sequence) const {
    const std::size_t rank = of_sequence / tokens_.seq;
    return (rank * tokens_.batch + sequence) * tokens_.seq + of_sequence % tokens_.seq;
  }

  const LocalTokens& tokens_;
  std::size_t top_k_;
  Tensor all_;  // [ranks, batch, seq, top_k]
  std::vector<std::size_t> order_;
};

}  // namespace

std::size_t capacity_of(double factor, std::size_t tokens, const MoeConfig& config) {
  const double even =
      static_cast<double>(config.top_k * tokens) / static_cast<double>(config.num_experts);
  // A product that is whole but for its last bits is that number.
  const double places = factor * even;
  return static_cast<std::size_t>(std::ceil(places - 1e-9 * places));
}

// [region keep_places]
void keep_places(std::span<std::int32_t> destinations, std::size_t top_k,
                 std::span<const std::size_t> order, std::size_t num_experts,
                 std::size_t capacity) {
  std::vector<std::size_t> taken(num_experts, 0);
  for (std::size_t choice = 0; choice < top_k; ++choice) {
    for (const std::size_t token : order) {
      std::int32_t& expert = destinations[token * top_k + choice];
      if (expert == kDropped) continue;
      if (taken[static_cast<std::size_t>(expert)]++ >= capacity) expert = kDropped;
    }
  }
}
// [/region]

void drop_beyond_capacity(const Tensor& destinations, const LocalTokens& tokens,
                          const MoeConfig& config, const Communicator& cp) {
  if (!config.capacity_factor) return;
  const double factor = *config.capacity_factor;
  if (config.capacity_group == CapacityGroup::kSequence) {
    SharedSequences sequences(destinations, tokens, cp);
    sequences.drop(config.num_experts, capacity_of(factor, tokens.seq_len, config));
    return sequences.copy_own_to(destinations, cp.rank());
  }
  std::vector<std::size_t> order(destinations.size(0));
  std::iota(order.begin(), order.end(), std::size_t{0});
  const HostView<std::int32_t> choices(destinations, HostAccess::kReadWrite);
  keep_places(choices.span(), config.top_k, order, config.num_experts,
              capacity_of(factor, order.size(), config));
}

}  // namespace ultra::expert_parallel
