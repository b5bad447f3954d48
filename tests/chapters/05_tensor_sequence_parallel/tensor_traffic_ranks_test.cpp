// What ranks send, in runs, against the closed forms.

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/chapters/05_tensor_sequence_parallel/split_run.hpp"
#include "tests/chapters/05_tensor_sequence_parallel/tensor_parallel_volume.hpp"

namespace ultra::tensor_parallel {
namespace {

using namespace tensor_parallel::test;
using train::RankSummary;

class TensorTrafficTest : public SplitTest {
 protected:
  /// One replica, two steps.
  MeshCase draw_replica(std::size_t tp, const Split& split) {
    return as_replica(draw({.tp = tp}, random.pick({DType::kF32, DType::kF64}), split));
  }
  static TensorParallelLayout layout_of(std::size_t tp, const Split& split) {
    return {.tp = checked_cast<int>(tp), .sequence_parallel = split.sequence_parallel};
  }
};

TEST_F(TensorTrafficTest, RanksSendWhatTheClosedFormSays) {
  for (const std::size_t tp : {1U, 2U, 3U, 4U, 8U}) {
    for (const SequenceParallel on : {SequenceParallel::kOff, SequenceParallel::kOn}) {
      const Split split = draw_split(on);
      MeshCase c = draw_replica(tp, split);
      if (tp == 4) c.more = "--recompute full";
      const std::vector<std::size_t> sizes = c.micro_batches();
      const TensorTraffic step = tensor_traffic({.model = c.options.model,
                                                 .layout = layout_of(tp, split),
                                                 .overlap = split.overlap,
                                                 .dtype = c.options.dtype,
                                                 .micro_batches = sizes,
                                                 .block_forwards = tp == 4 ? 2U : 1U});
      const auto sent = [all = summaries(c)](OpKind kind) {
        std::size_t bytes = 0;
        for (const RankSummary& rank : all) bytes += rank.communication[kind].sent_bytes;
        return bytes / 2;  // steps
      };
      if (launched_rank() != 0) continue;
      SCOPED_TRACE(c.str());
      EXPECT_EQ(sent(OpKind::kAllReduce), step.all_reduce);
      EXPECT_EQ(sent(OpKind::kAllGather), step.all_gather);
      EXPECT_EQ(sent(OpKind::kReduceScatter), step.reduce_scatter);
      EXPECT_EQ(sent(OpKind::kSend), step.send);
    }
  }
}

// Muon: every rank but a matrix's owner sends it its part, and gets it back. Where several ranks have the
// same head of keys and values, each of them does.
TEST_F(TensorTrafficTest, PartsOfMatricesTravelToTheirOwnersAndBack) {
  for (const std::size_t tp : {2U, 3U, 4U}) {
    MeshCase c = draw_replica(tp, draw_split());
    c.options.optimizer = "muon";
    const nn::ModelConfig& model = c.options.model;
    const std::size_t width = model.hidden_size;
    const std::size_t keys = width / model.num_heads * model.num_kv_heads;
    const std::size_t parts = std::min(tp, model.num_kv_heads);
    std::size_t part = (2 * width * width + 3 * width * model.ffn_hidden_size) / tp;
    if (parts > 1) part += 2 * width * keys / parts;  // with one part each rank has it all
    std::size_t bytes = 0;
    for (const RankSummary& rank : summaries(c)) {
      bytes += rank.communication[OpKind::kAllToAll].sent_bytes;
    }
    if (launched_rank() != 0) continue;
    EXPECT_EQ(bytes, 2 * model.num_layers * 2 * (tp - 1) * part * size_of(c.options.dtype))
        << c.str();
  }
}

// Megatron's count: 4 all-reduces of b s h elements per block. With sequence parallelism each
// becomes a reduce-scatter and an all-gather; the other all-gathers get a column's input again.
TEST_F(TensorTrafficTest, ABlockExchangesItsActivationsFourTimes) {
  const std::size_t layers = random.between(1, 90);
  const auto per_block = [&](const TensorParallelLayout& layout) {
    const ActivationExchanges more = activation_exchanges(layers + 1, layout);
    const ActivationExchanges less = activation_exchanges(layers, layout);
    return ActivationExchanges{.all_reduces = more.all_reduces - less.all_reduces,
                               .all_gathers = more.all_gathers - less.all_gathers,
                               .reduce_scatters = more.reduce_scatters - less.reduce_scatters};
  };
  EXPECT_EQ(per_block({.tp = 2}), (ActivationExchanges{.all_reduces = 4}));
  EXPECT_EQ(per_block({.tp = 2, .sequence_parallel = SequenceParallel::kOn}),
            (ActivationExchanges{.all_gathers = 4 + 2, .reduce_scatters = 4}));
  EXPECT_EQ(per_block({.tp = 1}), ActivationExchanges());
}

}  // namespace
}  // namespace ultra::tensor_parallel
