// What ranks send and keep, in runs, against the closed forms.
//
// Covers: chapters/08_expert_parallel/estimate/expert_volume.hpp
// Covers: chapters/08_expert_parallel/estimate/moe_memory.hpp

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "chapters/01_memory/estimate/model_presets.hpp"
#include "chapters/08_expert_parallel/estimate/expert_table.hpp"
#include "chapters/08_expert_parallel/estimate/expert_volume.hpp"
#include "tests/chapters/08_expert_parallel/expert_run.hpp"

namespace ultra::expert_parallel {
namespace {

using namespace expert_parallel::test;
using train::RankSummary;

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

TEST_F(ExpertTraffic, RanksKeepWhatTheClosedFormSaysWhereTokensAreSpreadEvenly) {
  for (const Axes& axes : {Axes{.dp = 2, .ep = 2}, Axes{}, Axes{.dp = 2, .cp = 2, .ep = 4},
                           Axes{.dp = 2, .tp = 2, .ep = 2}, Axes{.cp = 2, .ep = 2}}) {
    for (const char* mode : {"none", "selective", "full"}) {
      MeshCase c = draw(axes, random.pick({DType::kF32, DType::kF64}));
      c.options.model.max_seq_len = 2 * axes.cp * axes.tp * random.between(1, 4);
      c.options.global_batch = axes.dp * random.between(1, 3);
      c.micro_batch = random.between(1, 3);
      const std::size_t experts = axes.ep * random.between(1, 2);
      c.model = fmt::format(  // every token uses every expert
          "--experts {0} --top-k {0} --expert-ffn {1} --shared-experts {2} {3} {4}", experts,
          axes.tp * random.between(1, 4), random.between(0, 1),
          random.pick({"--balance aux", "--balance bias", "--balance none"}),
          random.pick({"", "--z-loss 0.1"}));
      c.more = fmt::format("--recompute {}", mode);
      const train::Setup setup = c.setup();
      const auto* technique = setup.find<ExpertParallel>();
      ASSERT_NE(technique, nullptr);
      const MoeModel model{.shape = memory::shape_of(c.options.model),
                           .moe = technique->options().config(c.options.model.ffn_hidden_size)};
      const LocalMoe rank = rank_share_of(setup, technique->options());
      const auto precision = memory::precision_of(c.options.dtype);
      const std::size_t largest = std::min(c.micro_batch, c.options.global_batch / axes.dp);
      const std::size_t activations =
          moe_peak_bytes(model, largest, precision, memory::options_of(setup).recompute, rank,
                         even_rows(model.moe, rank, largest));
      const RankParameters held = rank_parameters(model, rank);
      for (const RankSummary& summary : summaries(c)) {
        EXPECT_EQ(summary.memory.peak(MemoryCategory::kActivations).bytes, activations) << c.str();
        EXPECT_EQ(summary.memory.peak(MemoryCategory::kParameters).bytes,
                  (held.experts + held.others) * size_of(c.options.dtype))
            << c.str();
      }
    }
  }
}

// The first expert gets all tokens: its rank keeps what the bound says, and --device-memory stops
// it.
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
  const auto bound = [&](const std::string& capacity) {
    MeshCase run = c;
    run.model += capacity;
    const train::Setup setup = run.setup();
    const auto* technique = setup.find<ExpertParallel>();
    const MoeModel model{.shape = memory::shape_of(run.options.model),
                         .moe = technique->options().config(run.options.model.ffn_hidden_size)};
    const LocalMoe rank = rank_share_of(setup, technique->options());
    return moe_peak_bytes(model, 2, memory::NumberFormats::kFp32, {}, rank,
                          most_rows(model.moe, rank, 2));
  };
  const std::vector<std::size_t> dropless = peaks("");
  const std::vector<std::size_t> dropped = peaks(" --capacity-factor 1.25");
  if (dropless.empty()) return;  // another process has them
  EXPECT_LE(std::ranges::max(dropless), bound(""));
  EXPECT_LE(std::ranges::max(dropped), bound(" --capacity-factor 1.25"));
  EXPECT_LT(bound(" --capacity-factor 1.25"), bound(""));
  EXPECT_GT(std::ranges::max(dropless), std::ranges::max(dropped));
}

}  // namespace
}  // namespace ultra::expert_parallel
