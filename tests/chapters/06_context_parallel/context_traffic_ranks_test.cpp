// What ranks send, keep and compute, in runs, against the closed forms.

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "chapters/06_context_parallel/context_parallel.hpp"
#include "tests/chapters/06_context_parallel/context_run.hpp"
#include "tests/chapters/06_context_parallel/context_volume.hpp"

namespace ultra::context_parallel {
namespace {

using namespace context_parallel::test;
using train::RankSummary;

double flops_of(const RankSummary& rank) {
  const auto& sums = rank.counters.sums();
  return sums.at(std::string(kAttentionFlops));
}

class ContextTraffic : public ContextTest {
 protected:
  /// One replica without tensor parallelism, two steps.
  MeshCase draw_replica(const Sharing& sharing) {
    return as_replica(draw(1, 1, sharing, random.pick({DType::kF32, DType::kF64})));
  }

  static ContextLayout layout(const MeshCase& c, const Sharing& sharing) {
    return {.cp = sharing.choice.cp,
            .sequence = sharing.layout,
            .seq_len = c.options.model.max_seq_len};
  }

  /// Every method, each on sequences of either layout.
  std::vector<Sharing> sharings() {
    std::vector<Sharing> all;
    for (const MethodChoice& choice : kChoices) {
      all.push_back({choice, random.pick({SequenceLayout::kContiguous, SequenceLayout::kZigzag})});
    }
    return all;
  }

  const std::vector<MethodChoice> kChoices = {
      {.method = ContextMethod::kRing, .cp = 2},
      {.method = ContextMethod::kRing, .cp = 5},
      {.method = ContextMethod::kAllGather, .cp = 3},
      {.method = ContextMethod::kUlysses, .cp = 4, .ulysses = 4},
      {.method = ContextMethod::kUlyssesRing, .cp = 4, .ulysses = 2},
      {.method = ContextMethod::kUlyssesRing, .cp = 6, .ulysses = 3}};
};

TEST_F(ContextTraffic, EachRankSendsWhatTheClosedFormSays) {
  for (const Sharing& sharing : sharings()) {
    MeshCase c = draw_replica(sharing);
    const bool again = random.pick({true, false});
    if (again) c.more = "--recompute full";
    const std::vector<std::size_t> sizes = c.micro_batches();
    const SentByKind step = context_traffic({.model = c.options.model,
                                             .layout = layout(c, sharing),
                                             .choice = sharing.choice,
                                             .dtype = c.options.dtype,
                                             .micro_batches = sizes,
                                             .block_forwards = again ? 2U : 1U});
    const std::vector<RankSummary> ranks = summaries(c);
    SCOPED_TRACE(c.str());
    for (const RankSummary& rank : ranks) {
      const auto sent = [&](OpKind kind) { return rank.communication[kind].sent_bytes / 2; };
      EXPECT_EQ(sent(OpKind::kSend), step.send);
      EXPECT_EQ(sent(OpKind::kAllGather), step.all_gather);
      EXPECT_EQ(sent(OpKind::kReduceScatter), step.reduce_scatter);
      EXPECT_EQ(sent(OpKind::kAllToAll), step.all_to_all);
    }
  }
}

// Absorbed, keys are the values, and one for all heads: kv_lora_rank + qk_rope_head_dim elements of a
// token travel, and as many of a gradient. That is half a pair of one head as wide.
TEST_F(ContextTraffic, ARingOfLatentsSendsOneArrayForAllHeads) {
  for (const MethodChoice& choice : {kChoices[0], kChoices[1], kChoices[2]}) {
    const Sharing sharing{choice,
                          random.pick({SequenceLayout::kContiguous, SequenceLayout::kZigzag})};
    const MeshCase c = tensor_parallel::test::with_latents(draw_replica(sharing), random, true);
    const std::vector<std::size_t> sizes = c.micro_batches();
    nn::ModelConfig as_wide = c.options.model;
    as_wide.latent = {};
    as_wide.num_kv_heads = 1;
    as_wide.head_size = c.options.model.latent.cached();
    const SentByKind pairs = context_traffic({.model = as_wide,
                                              .layout = layout(c, sharing),
                                              .choice = choice,
                                              .dtype = c.options.dtype,
                                              .micro_batches = sizes});
    const std::vector<RankSummary> ranks = summaries(c);
    SCOPED_TRACE(c.str());
    for (const RankSummary& rank : ranks) {
      const auto sent = [&](OpKind kind) { return rank.communication[kind].sent_bytes / 2; };
      EXPECT_EQ(2 * sent(OpKind::kSend), pairs.send);
      EXPECT_EQ(2 * sent(OpKind::kAllGather), pairs.all_gather);
      EXPECT_EQ(2 * sent(OpKind::kReduceScatter), pairs.reduce_scatter);
    }
  }
}

TEST_F(ContextTraffic, ActivationsFallAsOneOverCp) {
  std::vector<std::size_t> peaks;
  for (const int cp : {1, 2, 4}) {
    const Sharing ring{{.method = ContextMethod::kRing, .cp = cp}};
    MeshCase c = draw(1, 1, ring, DType::kF32);
    c.options = ultra::test::short_run();
    c.options.steps = 1;
    c.options.model.max_seq_len = 32;
    c.micro_batch = 1;
    const std::vector<RankSummary> ranks = summaries(c);
    if (!ranks.empty()) peaks.push_back(ranks[0].memory.peak(MemoryCategory::kActivations).bytes);
  }
  if (peaks.empty()) return;  // another process has them
  EXPECT_EQ(peaks[0], 2 * peaks[1]);
  EXPECT_EQ(peaks[0], 4 * peaks[2]);
}

// Zig-zag: 2 N - 1 full blocks and 2 diagonal ones on every rank. Contiguous: the last rank computes
// about 2 N / (N + 1) times the average.
TEST_F(ContextTraffic, ZigzagIsBalancedAndContiguousIsNot) {
  for (const ContextMethod method : {ContextMethod::kRing, ContextMethod::kAllGather}) {
    for (const int cp : {2, 4}) {
      Sharing sharing{{.method = method, .cp = cp}};
      MeshCase c = draw_replica(sharing);
      c.options.doc_length = c.options.model.sliding_window = 0;
      const std::size_t chunk = random.between(1, 4);
      const std::size_t seq = 2 * static_cast<std::size_t>(cp) * chunk;
      c.options.model.max_seq_len = seq;
      const auto head_dim = static_cast<double>(c.options.model.head_dim());
      const double passes =
          2.0 * static_cast<double>(c.options.global_batch * c.options.model.num_layers *
                                    c.options.model.num_heads);
      const double all = static_cast<double>(seq * (seq + 1) / 2) * 14 * head_dim * passes;
      for (const RankSummary& rank : summaries(c)) EXPECT_EQ(flops_of(rank), all / cp) << c.str();
      sharing.layout = SequenceLayout::kContiguous;
      c.layout = sharing.flags();
      const std::vector<RankSummary> ranks = summaries(c);
      if (ranks.empty()) continue;
      double sum = 0;
      for (const RankSummary& rank : ranks) sum += flops_of(rank);
      EXPECT_EQ(sum, all) << "every pair once";
      const double part = static_cast<double>(seq) / cp;
      const double of_last = part * (static_cast<double>(seq) - part) + part * (part + 1) / 2;
      EXPECT_EQ(flops_of(ranks.back()), of_last * 14 * head_dim * passes) << c.str();
    }
  }
}

// Each token sees as many as any other, but for the first ones.
TEST_F(ContextTraffic, AWindowIsBalancedInBothLayoutsAndContiguousChunksSendLess) {
  const int cp = 8;
  std::vector<std::size_t> sent;
  for (const SequenceLayout layout : {SequenceLayout::kContiguous, SequenceLayout::kZigzag}) {
    MeshCase c = draw_replica({{.method = ContextMethod::kRing, .cp = cp}, layout});
    c.options = ultra::test::short_run();
    c.options.steps = 1;
    c.options.model.max_seq_len = 64;  // chunks of 8, or of 4
    c.options.model.sliding_window = 5;
    const std::vector<RankSummary> ranks = summaries(c);
    if (ranks.empty()) continue;  // another process has them
    sent.push_back(ranks[0].communication[OpKind::kSend].sent_bytes);
    double sum = 0;
    for (const RankSummary& rank : ranks) sum += flops_of(rank);
    const double of_full_windows = sum * 64 * 5 / (64 * 5 - (4 + 3 + 2 + 1)) / cp;
    for (const RankSummary& rank : ranks) EXPECT_LE(flops_of(rank), of_full_windows * 1.0000001);
  }
  // Two steps of eight: 1 message forward, 3 backward. Three steps: 2 and 5.
  if (!sent.empty()) {
    EXPECT_EQ(4 * sent[1], 7 * sent[0]);
  }
}

TEST_F(ContextTraffic, PaddingUnbalancesByLessThanAChunk) {
  const Sharing ring{{.method = ContextMethod::kRing, .cp = 3}};
  MeshCase c = draw_replica(ring);
  c.options.doc_length = c.options.model.sliding_window = 0;
  c.options.model.max_seq_len = random.between(6, 30);
  const ContextLayout of = layout(c, ring);
  const double passes = 2.0 * 14 *
                        static_cast<double>(c.options.global_batch * c.options.model.num_layers *
                                            c.options.model.hidden_size);
  const double chunk_of_all = static_cast<double>(of.chunk_len() * of.padded_len()) * passes;
  double least = 1e300;
  double most = 0;
  for (const RankSummary& rank : summaries(c)) {
    least = std::min(least, flops_of(rank));
    most = std::max(most, flops_of(rank));
  }
  EXPECT_LE(most, least + chunk_of_all) << c.str();
}

}  // namespace
}  // namespace ultra::context_parallel
