// What ranks send, in runs, against the closed forms.

#include "chapters/05_tensor_sequence_parallel/tensor_parallel_factory.hpp"
#include "chapters/05_tensor_sequence_parallel/tensor_parallel_layout.hpp"
#include "common/nn/model_config.hpp"
#include "common/tensor/dtype.hpp"
#include "tests/chapters/05_tensor_sequence_parallel/split_run.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::tensor_parallel {
namespace {

using namespace tensor_parallel::test;
using train::RankSummary;

// What tensor and sequence parallelism send in a step, by closed form.
//
// Legend: t ranks, L num_layers, h hidden_size, n = b s h elements of a micro-batch's activations.
// An all-reduce of n elements makes t ranks send 2 (t - 1) n elements together, an all-gather or a
// reduce-scatter half of that.

/// @brief How often arrays of n = b s h elements travel in one micro-batch.
///
/// | | all-reduce | all-gather | reduce-scatter |
/// |---|---|---|---|
/// | without sequence parallelism | 4 L + 2 | | |
/// | with it | | 6 L + 3 | 4 L + 2 |
///
/// The all-reduces: 2 forward and 2 backward per block; the embedding's output and the head's input
/// gradient. An all-reduce is one reduce-scatter and one all-gather; the other 2 L + 1 all-gathers
/// get the inputs of column-parallel matrices again, of which a rank keeps its tokens only.
/// Source: Korthikanti et al. 2022, arXiv 2205.05198, section 4.2.2.
struct ActivationExchanges {
  std::size_t all_reduces = 0;      ///< of n elements
  std::size_t all_gathers = 0;      ///< likewise
  std::size_t reduce_scatters = 0;  ///< likewise

  bool operator==(const ActivationExchanges&) const = default;
};

/// @brief A step of one replica, as far as its traffic goes.
struct TensorStep {
  nn::ModelConfig model;                            ///< whole
  TensorParallelLayout layout;                      ///< how it is split
  TensorOverlap overlap = TensorOverlap::kNone;     ///< kRing sends chunks one by one
  DType dtype = DType::kF32;                        ///< of activations and gradients
  std::span<const std::size_t> micro_batches = {};  ///< sequences of each
  std::size_t block_forwards = 1;                   ///< see activation_exchanges()
};

/// @brief Bytes that the ranks of a replica send together in a step, by the kind of operation.
struct TensorTraffic {
  std::size_t all_reduce = 0;      ///< activations; the loss; gradients of copies
  std::size_t all_gather = 0;      ///< activations
  std::size_t reduce_scatter = 0;  ///< activations
  std::size_t send = 0;            ///< chunks of activations on rings

  /// @brief All together.
  [[nodiscard]] std::size_t total() const {
    return all_reduce + all_gather + reduce_scatter + send;
  }
  bool operator==(const TensorTraffic&) const = default;
};

/// Elements that the members of a group send together in an all-reduce.
std::size_t all_reduced(std::size_t ranks, std::size_t elements) {
  return 2 * (ranks - 1) * elements;
}

/// Elements sent to add up the gradients of copies, once per step.
std::size_t gradients_of_copies(const TensorStep& step) {
  const nn::ModelConfig& model = step.model;
  const std::size_t ranks = step.layout.ranks();
  std::size_t sent = 0;
  if (step.layout.splits_sequences()) {
    sent += all_reduced(ranks, (2 * model.num_layers + 1) * model.hidden_size);
  }
  const std::size_t copies = step.layout.kv_copies(model.num_kv_heads);
  const std::size_t head = model.head_dim() * model.hidden_size;
  return sent + ranks / copies * all_reduced(copies, 2 * model.num_layers * head);
}

/// @brief The table above.
/// @param block_forwards  forward passes of each block: 2 where blocks are computed again, else 1.
ActivationExchanges activation_exchanges(std::size_t num_layers, const TensorParallelLayout& layout,
                                         std::size_t block_forwards = 1) {
  if (layout.tp == 1) return {};
  const std::size_t forward = 2 * num_layers * block_forwards;
  const std::size_t backward = 2 * num_layers;
  const std::size_t all_reduces = 1 + forward + backward + 1;  // embedding, blocks, head
  if (!layout.splits_sequences()) return {.all_reduces = all_reduces};
  const std::size_t again = 2 * num_layers + 1;
  return {.all_gathers = all_reduces + again, .reduce_scatters = all_reduces};
}

/// @brief What tensor parallelism sends in a step: exact, but for the sums of loss and gradient
/// norm (8 bytes for each weight tensor, and for the loss), which replicas share.
///
/// Beside the activations: 3 numbers per token for the loss; and once per step gradients of weights
/// of which several ranks hold copies: norms, with sequence parallelism, and key/value heads on
/// more than one rank.
TensorTraffic tensor_traffic(const TensorStep& step) {
  const std::size_t ranks = step.layout.ranks();
  const std::size_t layers = step.model.num_layers;
  const ActivationExchanges times = activation_exchanges(layers, step.layout, step.block_forwards);
  TensorTraffic elements;
  for (const std::size_t sequences : step.micro_batches) {
    const std::size_t tokens = sequences * step.model.max_seq_len;
    const std::size_t once = (ranks - 1) * tokens * step.model.hidden_size;
    elements.all_reduce += 2 * times.all_reduces * once + 3 * all_reduced(ranks, tokens);
    elements.all_gather += times.all_gathers * once;
    elements.reduce_scatter += times.reduce_scatters * once;
    if (step.overlap != TensorOverlap::kRing) continue;
    // Left to all-gathers: the columns' inputs again. The embedding has no product to hide behind.
    const std::size_t gathers = times.all_gathers - (2 * layers + 1) - 1;
    const std::size_t scatters = times.reduce_scatters - 1;
    elements.all_gather -= gathers * once;
    elements.reduce_scatter -= scatters * once;
    elements.send += (gathers + scatters) * once;
  }
  if (ranks > 1) elements.all_reduce += gradients_of_copies(step);
  const std::size_t width = size_of(step.dtype);
  // The squares of each of the 9 weights of a block, of table, last norm and output matrix; and the
  // loss.
  const std::size_t sums = all_reduced(ranks, 9 * layers + 3 + 1) * sizeof(double);
  return {.all_reduce = elements.all_reduce * width + sums,
          .all_gather = elements.all_gather * width,
          .reduce_scatter = elements.reduce_scatter * width,
          .send = elements.send * width};
}

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

}  // namespace
}  // namespace ultra::tensor_parallel
