// What each rank keeps, holds for a moment and sends, measured in training runs: the P / N of the
// closed forms.
//
// Covers: chapters/04_zero/zero_memory.hpp

#include "chapters/04_zero/zero_memory.hpp"
#include "tests/chapters/04_zero/zero_run.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

using namespace zero::test;
using train::RankSummary;
using train::TrainResult;

double real(std::size_t number) { return static_cast<double>(number); }

std::size_t peak(const RankSummary& rank, MemoryCategory category) {
  return rank.memory.peak(category).bytes;
}

Sharding sharding_of(const ZeroCase& c) {
  return {.stage = c.settings.stage, .shards = c.shards(), .replicas = c.ranks / c.shards()};
}

/// Parameters of the head, which stays at the turn: in a micro-batch of stage 3 it is gathered once
/// where others are gathered twice.
std::size_t parameters_of_the_head(const ZeroCase& c) {
  return (data::kByteVocabulary + 1) * c.options.model.hidden_size;  // its matrix and the norm
}

/// Elements that stay with the head, of those that the closed form of P counts.
double not_sent_for_the_head(const ZeroCase& c) {
  if (c.settings.stage != ZeroStage::kParameters) return 0;
  if (c.settings.reshard == Reshard::kAfterBackward) return 0;
  return real(c.passes() * parameters_of_the_head(c)) * (c.shards() - 1) / c.shards();
}

/// Bytes that all ranks together send in a step to add up loss and norm, beside a number for the
/// loss one for each tensor of weights.
std::size_t sent_for_loss_and_norm(const ZeroCase& c) {
  nn::DenseFactory factory;
  const std::size_t numbers = nn::named_shapes(c.options.model, factory).size() + 1;
  return 2 * static_cast<std::size_t>(c.ranks - 1) * numbers * sizeof(double);
}

class ZeroMemory : public ZeroTest {
 protected:
  /// Flat shards: P / N is theirs. What rows pad has its own test.
  ZeroCase draw(int ranks, ZeroStage stage, DType dtype) {
    ZeroCase c = ZeroTest::draw(ranks, stage, dtype);
    c.settings.cut = ShardCut::kFlat;
    return c;
  }

  /// Two steps: the second begins with the optimizer's states in memory.
  ZeroCase draw_two_steps(int ranks, ZeroStage stage) {
    ZeroCase c = draw(ranks, stage, random.pick({DType::kF32, DType::kF64}));
    c.options.steps = 2;
    c.recompute.mode = random.pick(
        {memory::Recompute::kNone, memory::Recompute::kSelective, memory::Recompute::kFull});
    if (c.recompute.mode == memory::Recompute::kFull) {
      c.recompute.recompute_every = random.between(1, 2);
    }
    return c;
  }

  /// Every part and every parameter is a multiple of 24 elements: 2, 3, 4, 6 and 8 ranks need no
  /// padding.
  ZeroCase without_padding(int ranks, ZeroStage stage) {
    ZeroCase c = draw_two_steps(ranks, stage);
    c.options.model.hidden_size = 24;
    c.options.model.num_heads = 4;
    c.options.model.num_kv_heads = random.pick<std::size_t>({1, 2});
    return c;
  }

  /// What the run on all ranks gave. Without a progress thread: that keeps the memory of an
  /// operation that has ended for a moment longer, or does not.
  static TrainResult trained(const ZeroCase& c) {
    TrainResult result;
    on_ranks(
        c,
        [&](Communicator& dp) {
          const TrainResult own = train_zero(dp, c);
          if (dp.rank() == 0) result = own;
        },
        in_rank_order(Progress::kOnCall));
    return result;
  }

  /// Calls `check` for each rank of the run; under mpirun where rank 0 is.
  static void for_each_rank(
      const ZeroCase& c,
      const std::function<void(const RankSummary&, std::size_t parameters)>& check) {
    const TrainResult result = trained(c);
    SCOPED_TRACE(c.str());
    for (const RankSummary& rank : result.ranks) {
      SCOPED_TRACE(fmt::format("rank {}", rank.rank));
      check(rank, result.parameters);
    }
  }
};

/// Padding is less than one element per rank and group.
TEST_F(ZeroMemory, StatesAreOneNthOfThoseThatAreSharded) {
  for (const int ranks : {1, 2, 5, 8}) {
    for (const ZeroStage stage : kSharded) {
      ZeroCase c = draw(ranks, stage, DType::kF32);
      c.options.model.hidden_size = 48;
      c.options.model.num_heads = 4;
      c.options.model.num_kv_heads = 2;
      c.options.model.ffn_hidden_size = 61;
      c.options.steps = 1;
      for_each_rank(c, [&](const RankSummary& rank, std::size_t parameters) {
        const RankBytes bytes =
            bytes_per_rank(sharding_of(c), parameters, memory::NumberFormats::kFp32);
        EXPECT_NEAR(real(peak(rank, MemoryCategory::kParameters)), bytes.parameters,
                    0.01 * bytes.parameters);
        EXPECT_NEAR(real(peak(rank, MemoryCategory::kGradients)), bytes.gradients,
                    0.01 * bytes.gradients);
        EXPECT_NEAR(real(peak(rank, MemoryCategory::kOptimizer)), bytes.optimizer,
                    0.01 * bytes.optimizer);
      });
    }
  }
}

TEST_F(ZeroMemory, TheWholeGradientNeverExists) {
  for (const ZeroStage stage : {ZeroStage::kGradients, ZeroStage::kParameters}) {
    for (const Overlap overlap : {Overlap::kOff, Overlap::kOn}) {
      ZeroCase c = draw(4, stage, DType::kF32);
      c.options.model.num_layers = 12;
      c.options.model.hidden_size = 36;
      c.options.model.num_heads = 3;
      c.options.model.num_kv_heads = 3;
      c.options.model.ffn_hidden_size = 64;
      c.options.steps = 1;
      c.settings = {.stage = stage, .bucket_capacity = 5000, .overlap = overlap, .prefetch = 1};
      for_each_rank(c, [&](const RankSummary& rank, std::size_t parameters) {
        const std::size_t whole = parameters * sizeof(float);
        EXPECT_LT(
            peak(rank, MemoryCategory::kGradients) + peak(rank, MemoryCategory::kCommunication),
            whole * 2 / 3);
        EXPECT_EQ(peak(rank, MemoryCategory::kParameters) < whole / 3,
                  stage == ZeroStage::kParameters)
            << "nor do the weights, in stage 3";
      });
    }
  }
}

/// A unit and its gradients on their way take 3 blocks at most; 4 units and gradients take more.
TEST_F(ZeroMemory, LookingAheadCostsTheUnitsThatAreThere) {
  ZeroCase c = draw(2, ZeroStage::kParameters, DType::kF32);
  c.options.model = {.vocab_size = data::kByteVocabulary,
                     .hidden_size = 64,
                     .num_layers = 4,
                     .num_heads = 4,
                     .num_kv_heads = 4,
                     .ffn_hidden_size = 256,
                     .max_seq_len = 4};
  c.options.steps = 1;
  c.settings.reshard = Reshard::kAfterForward;
  const std::size_t block = sizeof(float) * (4 * 64 * 64 + 3 * 64 * 256 + 2 * 64);
  const auto peak_with = [&](Overlap overlap, std::size_t prefetch) {
    c.settings.overlap = overlap;
    c.settings.prefetch = prefetch;
    std::size_t bytes = 0;
    for_each_rank(c, [&](const RankSummary& rank, std::size_t) {
      bytes = std::max(bytes, peak(rank, MemoryCategory::kCommunication));
    });
    return bytes;
  };
  const std::size_t none = peak_with(Overlap::kOff, 0);
  const std::size_t three = peak_with(Overlap::kOn, 3);
  if (none == 0) return;  // under mpirun: another process has them
  EXPECT_LE(none, 3 * block);
  EXPECT_GT(three, 3 * block);
}

/// Bytes that a rank sent in a step to add up gradients and to gather weights.
std::size_t sent_in_a_step(const RankSummary& rank, const ZeroCase& c) {
  return (rank.communication[OpKind::kReduceScatter].sent_bytes +
          rank.communication[OpKind::kAllGather].sent_bytes) /
         c.options.steps;
}

TEST_F(ZeroMemory, ClosedFormsHoldExactlyWithoutPadding) {
  for (const int ranks : {2, 3, 4, 8}) {
    for (const ZeroStage stage : kSharded) {
      const ZeroCase c = without_padding(ranks, stage);
      for_each_rank(c, [&](const RankSummary& rank, std::size_t parameters) {
        const SentElements sent =
            sent_per_rank(sharding_of(c), parameters, c.passes(), c.settings.reshard);
        EXPECT_DOUBLE_EQ(real(sent_in_a_step(rank, c)), (sent.total() - not_sent_for_the_head(c)) *
                                                            real(size_of(c.options.dtype)));
        EXPECT_EQ(sent.between, 0);
      });
    }
  }
}

/// Between nodes only sums of shards travel, once per step however many micro-batches there are.
TEST_F(ZeroMemory, NodesSendTheirShardsOncePerStep) {
  for (const auto& [ranks, node] : {std::pair{4, 2}, std::pair{6, 2}, std::pair{6, 3}}) {
    for (const ZeroStage stage : kSharded) {
      ZeroCase c = without_padding(ranks, stage);
      c.node_size = static_cast<std::size_t>(node);
      const TrainResult result = trained(c);
      SCOPED_TRACE(c.str());
      std::size_t inside = 0;
      std::size_t between = 0;
      for (const RankSummary& rank : result.ranks) {
        inside += sent_in_a_step(rank, c);
        between += rank.communication[OpKind::kAllReduce].sent_bytes / c.options.steps;
      }
      if (result.ranks.empty()) continue;  // under mpirun: another process has them
      const std::size_t all = static_cast<std::size_t>(ranks);
      const SentElements sent =
          sent_per_rank(sharding_of(c), result.parameters, c.passes(), c.settings.reshard);
      const double bytes = real(all * size_of(c.options.dtype));
      EXPECT_DOUBLE_EQ(real(inside), (sent.inside - not_sent_for_the_head(c)) * bytes);
      EXPECT_DOUBLE_EQ(real(between - sent_for_loss_and_norm(c)), sent.between * bytes);
    }
  }
}

}  // namespace
}  // namespace ultra::zero
