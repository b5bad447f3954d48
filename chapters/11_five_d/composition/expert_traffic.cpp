#include "chapters/11_five_d/composition/expert_traffic.hpp"

#include <cmath>

#include "chapters/01_memory/memory.hpp"
#include "chapters/05_tensor_sequence_parallel/tensor_parallel.hpp"
#include "chapters/06_context_parallel/context_parallel.hpp"
#include "chapters/07_pipeline_parallel/pipeline_parallel.hpp"
#include "chapters/08_expert_parallel/estimate/expert_volume.hpp"
#include "chapters/08_expert_parallel/expert_parallel.hpp"
#include "chapters/08_expert_parallel/moe/router.hpp"
#include "chapters/11_five_d/composition/mesh_place.hpp"
#include "chapters/11_five_d/composition/rank_activations.hpp"
#include "chapters/11_five_d/composition/rank_tensors.hpp"

namespace ultra::five_d {
namespace {

/// Follows the choices from the ranks that made them to those that hold the experts.
class ExpertTraffic {
 public:
  ExpertTraffic(const train::Setup& setup, const std::vector<train::RankSummary>& ranks)
      : setup_(setup),
        ranks_(ranks),
        moe_(expert_parallel::options_of(setup).config(setup.train.model.ffn_hidden_size)),
        ep_(setup.ranks_along(expert_parallel::kAxis)),
        cp_(setup.ranks_along(context_parallel::kAxis)) {}

  [[nodiscard]] double bytes_of(std::size_t rank, std::size_t steps) const {
    const MeshPlace place = place_of(setup_, rank);
    std::size_t blocks = 0;
    for (const nn::StageSpec& chunk : chunks_of(setup_, place.stage)) blocks += chunk.layers.size();
    const bool again = memory::options_of(setup_).recompute.mode == memory::Recompute::kFull;
    return expert_parallel::exchanged_bytes(
        remote_rows(place), steps * micro_batches_of(setup_, place.replica).size() * blocks,
        again ? 2 : 1, setup_.train.model.hidden_size, moe_.num_experts, ep_,
        size_of(setup_.train.formats().compute));
  }

 private:
  [[nodiscard]] std::size_t data_rank(const MeshPlace& place) const {
    return place.replica * cp_ + place.context;
  }

  /// The rank at the same place of its stage and matrices, another one among the replicas.
  [[nodiscard]] const train::RankSummary& rank_at(MeshPlace place, std::size_t data) const {
    place.replica = data / cp_;
    place.context = data % cp_;
    const std::size_t stage =
        place.replica * setup_.ranks_along(pipeline_parallel::kAxis) + place.stage;
    return ranks_.at((stage * cp_ + place.context) * setup_.ranks_along(tensor_parallel::kAxis) +
                     place.tensor);
  }

  [[nodiscard]] double chosen(const train::RankSummary& rank, std::size_t expert) const {
    double rows = 0;
    for (std::size_t layer = 0; layer < setup_.train.model.num_layers; ++layer) {
      const auto& sums = rank.counters.sums();
      const auto found = sums.find(expert_parallel::load_counter(layer, expert));
      if (found != sums.end()) rows += found->second;
    }
    return rows;
  }

  [[nodiscard]] expert_parallel::RemoteRows remote_rows(const MeshPlace& place) const {
    const std::size_t own = data_rank(place);
    const std::size_t first = own / ep_ * ep_;
    const std::size_t held = moe_.num_experts / ep_;
    expert_parallel::RemoteRows rows;
    for (std::size_t expert = 0; expert < moe_.num_experts; ++expert) {
      const std::size_t holder = first + expert / held;
      if (holder != own) {
        rows.sent += chosen(rank_at(place, own), expert);
        continue;
      }
      for (std::size_t other = first; other < first + ep_; ++other) {
        if (other != own) rows.received += chosen(rank_at(place, other), expert);
      }
    }
    return rows;
  }

  const train::Setup& setup_;
  const std::vector<train::RankSummary>& ranks_;
  expert_parallel::MoeConfig moe_;
  std::size_t ep_;
  std::size_t cp_;
};

}  // namespace

std::optional<std::size_t> expert_bytes(const train::Setup& setup,
                                        const std::vector<train::RankSummary>& ranks,
                                        std::size_t steps) {
  const expert_parallel::ExpertParallelOptions& options = expert_parallel::options_of(setup);
  if (!options.has_experts() || options.ep == 1) return 0;
  if (options.config(setup.train.model.ffn_hidden_size).capacity_factor) return {};
  const ExpertTraffic traffic(setup, ranks);
  double bytes = 0;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) bytes += traffic.bytes_of(rank, steps);
  return static_cast<std::size_t>(std::llround(bytes));
}

}  // namespace ultra::five_d
