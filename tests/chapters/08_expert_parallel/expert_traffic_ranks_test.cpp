// What ranks send and keep, in runs, against the closed forms.

#include "chapters/08_expert_parallel/expert_parallel.hpp"
#include "tests/chapters/08_expert_parallel/expert_run.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::expert_parallel {
namespace {

using namespace expert_parallel::test;
using train::RankSummary;

// What the all-to-alls of expert parallelism send, by closed form.
//
// Legend: N ranks of ep; E experts; h hidden_size.
// Per block and micro-batch a rank sends, in elements:
//
// | exchange       | of a routing                |
// |----------------|-----------------------------|
// | dispatch       | h rows for other ranks      |
// | combine        | h rows from other ranks     |
//
// A forward pass makes both, and so does a backward pass; a forward pass also sends E (N-1)/N
// counts of 4 bytes. With tp, each of its ranks sends all of this.

/// @brief Rows that travel between different ranks, as one of them sees it.
struct RemoteRows {
  double sent = 0;      ///< to other ranks' experts
  double received = 0;  ///< from other ranks, for its own
};

/// @brief Bytes that a rank sends for one block.
/// @param rows           of all its micro-batches.
/// @param micro_batches  of which counts travel.
/// @param forwards       forward passes of each micro-batch: 2 where the block is computed again.
/// @param element_bytes  of an activation.
double exchanged_bytes(const RemoteRows& rows, std::size_t micro_batches, std::size_t forwards,
                       std::size_t hidden, std::size_t num_experts, std::size_t ep,
                       std::size_t element_bytes) {
  const auto passes = static_cast<double>(forwards + 1);
  const double of_rows =
      passes * (rows.sent + rows.received) * static_cast<double>(hidden * element_bytes);
  const std::size_t counts = num_experts / ep * (ep - 1) * sizeof(std::int32_t);
  return of_rows + static_cast<double>(micro_batches * forwards * counts);
}

class ExpertTraffic : public ExpertTest {
 protected:
  /// Two steps, without anything else that exchanges all to all.
  MeshCase draw_traffic(const Axes& axes) {
    MeshCase c = draw(axes, random.pick({DType::kF32, DType::kF64}));
    c.options.steps = 2;
    c.options.global_batch = axes.dp * random.between(1, 3);
    return c;
  }

  static double counted(const RankSummary& rank, const std::string& name) {
    const auto& sums = rank.counters.sums();
    const auto found = sums.find(name);
    return found == sums.end() ? 0 : found->second;
  }

  /// Rows between different ranks of ep in the whole run, as `rank` sees them; ranks of an ep group
  /// are consecutive.
  static RemoteRows remote_rows(const std::vector<RankSummary>& ranks, std::size_t rank,
                                const MeshCase& c, std::size_t experts) {
    const std::size_t ep = c.axes.ep;
    const std::size_t held = experts / ep;
    const std::size_t first = rank / ep * ep;
    RemoteRows rows;
    for (std::size_t layer = 0; layer < c.options.model.num_layers; ++layer) {
      for (std::size_t e = 0; e < experts; ++e) {
        const std::size_t holder = first + e / held;
        if (holder != rank) rows.sent += counted(ranks[rank], load_counter(layer, e));
        if (holder != rank) continue;
        for (std::size_t other = first; other < first + ep; ++other) {
          if (other != rank) rows.received += counted(ranks[other], load_counter(layer, e));
        }
      }
    }
    return rows;
  }
};

TEST_F(ExpertTraffic, EachRankSendsWhatTheClosedFormSays) {
  for (const Axes& axes :
       {Axes{.dp = 2, .ep = 2}, Axes{.dp = 4, .ep = 2}, Axes{.dp = 3, .ep = 3},
        Axes{.dp = 2, .cp = 2, .ep = 4}, Axes{.cp = 2, .ep = 2}, Axes{.dp = 2}}) {
    MeshCase c = draw_traffic(axes);
    const std::size_t ep = axes.ep;
    const std::size_t experts = ep * random.between(1, 3);
    c.model = fmt::format("--experts {} --top-k {}", experts, random.between(1, experts));
    const bool again = random.pick({true, false});
    if (again) c.more = "--recompute full";
    const std::vector<RankSummary> ranks = summaries(c);
    SCOPED_TRACE(c.str());
    const std::size_t share = c.options.global_batch / axes.dp;
    const std::size_t passes = 2 * ceil_div(share, c.micro_batch) * c.options.model.num_layers;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      const double bytes =
          exchanged_bytes(remote_rows(ranks, rank, c, experts), passes, again ? 2 : 1,
                          c.options.model.hidden_size, experts, ep, size_of(c.options.dtype));
      EXPECT_EQ(static_cast<double>(ranks[rank].communication[OpKind::kAllToAll].sent_bytes), bytes)
          << "rank " << rank;
    }
  }
}

// Biases make all tokens choose a rank's experts: it keeps no more than the bound, which a capacity
// lowers. A row that came is kept as h + 3 f numbers; all 4 n tokens may choose a rank's two experts,
// each of which has ceil(1.25 s / E) places of a sequence with a capacity.
TEST_F(ExpertTraffic, MemoryUnderImbalanceIsBounded) {
  MeshCase c = fixed({.dp = 4, .ep = 4}, 2);
  c.options.global_batch = 8;
  c.options.micro_batch = 2;
  c.options.steps = 6;
  c.options.model.max_seq_len = 32;
  // Biases jump by so much that after the first step only experts with too few tokens are chosen.
  c.model = "--experts 8 --top-k 1 --balance bias --bias-rate 100 --expert-ffn 64";
  const auto peaks = [&](const std::string& capacity) {
    MeshCase run = c;
    run.model += capacity;
    std::vector<std::size_t> bytes;
    for (const RankSummary& rank : summaries(run)) {
      bytes.push_back(rank.memory.peak(MemoryCategory::kActivations).bytes);
    }
    return bytes;
  };
  MeshCase alone = c;  // a rank gets as many rows as it sends
  alone.axes = {};
  alone.options.global_batch = 2;
  alone.options.steps = 1;
  const std::vector<RankSummary> one = summaries(alone);
  const std::vector<std::size_t> dropless = peaks("");
  const std::vector<std::size_t> dropped = peaks(" --capacity-factor 1.25");
  if (dropless.empty()) return;  // another process has them
  const std::size_t even = one[0].memory.peak(MemoryCategory::kActivations).bytes;
  const nn::ModelConfig& model = c.options.model;
  const std::size_t tokens = 2 * model.max_seq_len;
  const auto bound = [&](std::size_t rows) {
    return even + model.num_layers * 4 * (rows - tokens) * (model.hidden_size + 3 * 64);
  };
  EXPECT_LE(std::ranges::max(dropless), bound(4 * tokens));
  EXPECT_LE(std::ranges::max(dropped), bound(2 * 4 * 2 * 5));
  EXPECT_GT(std::ranges::max(dropless), std::ranges::max(dropped));
}

}  // namespace
}  // namespace ultra::expert_parallel
