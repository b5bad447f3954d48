// Whole training runs with ZeRO++: what is the same as with ZeRO-3 bit for bit, what is near it,
// and that ranks agree.
//
// Covers: chapters/04_zero/zero_plus_plus/zero_plus_plus_parts.hpp
// Covers: chapters/04_zero/zero_plus_plus/zero_plus_plus_volume.hpp

#include <cstdio>

#include "chapters/04_zero/shards/shard_groups.hpp"
#include "chapters/04_zero/zero_plus_plus/zero_plus_plus_volume.hpp"
#include "tests/chapters/04_zero/zero_plus_plus/zero_plus_plus_case.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

using namespace zero::test;

class ZeroPlusPlusTraining : public ZeroPlusPlusTest {
 protected:
  static ZeroCase with(ZeroCase c, const ZeroPlusPlus& how) {
    c.settings.plus_plus = how;
    return c;
  }

  ZeroCase draw_200_steps() {
    ZeroCase c = draw(4, ZeroStage::kParameters, DType::kF32);
    c.settings.cut = ShardCut::kFlat;
    c.options.model = {.vocab_size = data::kByteVocabulary,
                       .hidden_size = 32,
                       .num_layers = 1,
                       .num_heads = 4,
                       .num_kv_heads = 2,
                       .ffn_hidden_size = 64,
                       .max_seq_len = 16};
    c.options.global_batch = 8;
    c.micro_batch = 2;
    c.options.steps = 200;
    c.options.clip_norm = 1;
    c.settings = {.stage = ZeroStage::kParameters, .prefetch = 1};
    return c;
  }

  /// The mean loss of the last 20 steps, of two runs: one batch has 128 tokens, too few to tell 1 %
  /// apart, and rounding alone moves a run's loss by some 0.5 %.
  static double loss_at_the_end(const Communicator& dp, ZeroCase c) {
    double sum = 0;
    for (const std::uint64_t seed : {0U, 1U}) {
      c.options.seed = seed;
      const train::TrainResult result = train_zero(dp, c);
      for (std::size_t i = 180; i < 200; ++i) sum += result.steps.at(i).loss;
    }
    return sum / 40;
  }

  static void expect_same_runs(const ZeroRun& actual, const ZeroRun& expected) {
    EXPECT_EQ(losses_and_norms(actual.result), losses_and_norms(expected.result));
    EXPECT_TRUE(actual.own == expected.own) << "the weights that this rank updates";
  }
};

TEST_F(ZeroPlusPlusTraining, SecondaryShardsChangeNoBit) {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    for (const std::string list : {"", "weights-int8,"}) {
      const ZeroCase c =
          draw_with(list + "hierarchical", ranks, random.pick({DType::kF32, DType::kF64}));
      ZeroPlusPlus without = c.settings.plus_plus;
      without.secondary = SecondaryShards::kNone;
      SCOPED_TRACE(text_of(c.settings.plus_plus));
      on_ranks(c, [&](Communicator& dp) {
        expect_same_runs(run_zero(dp, c), run_zero(dp, with(c, without)));
      });
    }
  }
}

/// How far ahead units are gathered, what overlaps and what is computed again changes no bit.
TEST_F(ZeroPlusPlusTraining, WhenThingsTravelChangesNoBit) {
  for (const std::string& list : all_techniques()) {
    ZeroCase c = draw_with(list, static_cast<int>(random.between(2, 4)), DType::kF32);
    c.options.model.num_layers = 3;
    ZeroCase other = c;
    other.settings.prefetch = random.between(0, 3);
    other.settings.overlap = c.settings.overlap == Overlap::kOn ? Overlap::kOff : Overlap::kOn;
    other.recompute = {.mode = memory::Recompute::kFull, .recompute_every = 2};
    SCOPED_TRACE(list + ": " + text_of(c.settings.plus_plus));
    on_ranks(c, [&](Communicator& dp) { expect_same_runs(run_zero(dp, other), run_zero(dp, c)); });
  }
}

/// The promise of the method: quantisation costs no quality. Lists without "hierarchical" stand for
/// those with it, which have the same bits (SecondaryShardsChangeNoBit).
TEST_F(ZeroPlusPlusTraining, LossesAfter200StepsAreWithinOnePercentOfZero3) {
  if (launched_world_size()) GTEST_SKIP() << "threads compute the same";
  const ZeroCase c = draw_200_steps();
  on_ranks(
      c,
      [&](Communicator& dp) {
        const double expected = loss_at_the_end(dp, c);
        for (const std::string& list : all_techniques()) {
          if (list.find("hierarchical") != std::string::npos) continue;
          const double loss = loss_at_the_end(dp, with(c, techniques(list, 2)));
          EXPECT_NEAR(loss, expected, 0.01 * expected) << list;
          if (dp.rank() > 0) continue;
          std::fprintf(stderr, "  %-27s loss %.4f, %+.2f%% of ZeRO-3's %.4f\n", list.c_str(), loss,
                       100 * (loss / expected - 1), expected);
        }
      },
      in_rank_order(Progress::kOnCall));
}

// What training runs with ZeRO++ send, in all and between nodes, and what memory they take: to the
// byte what the closed forms say, for every subset of the techniques.

/// Gathers by rings and reductions pairwise: what the closed forms between nodes are about.
std::shared_ptr<const comm::CollectiveAlgorithms> rings_and_pairs() {
  return std::make_shared<const collectives::BookAlgorithms>(
      collectives::BookOptions{.names = {{OpKind::kAllReduce, "pairwise"},
                                         {OpKind::kReduceScatter, "pairwise"},
                                         {OpKind::kAllGather, "ring"}},
                               .tuning = {}});
}

/// Counts what a rank sends while weights and gradients travel; what leaves its node is taken from
/// the schedules that the operations follow.
class NodeTraffic : public CommObserver {
 public:
  NodeTraffic(const Communicator& dp, std::size_t node_size)
      : rank_(dp.rank()), ranks_(dp.size()), node_(static_cast<int>(node_size)) {}

  void operation_ended(const OperationInfo& info, std::size_t sent_bytes, Clock::time_point,
                       Clock::time_point) override {
    if (info.kind != OpKind::kAllGather && info.kind != OpKind::kAllToAll &&
        info.kind != OpKind::kReduceScatter) {
      return;
    }
    SentBytes sent{.total = sent_bytes, .between = 0};
    if (info.communicator == "across nodes") {
      sent.between = sent_bytes;
    } else if (info.communicator != "node") {
      sent.between = between(info, sent_bytes);
    }
    SentBytes& sum = info.kind == OpKind::kAllGather ? gathers : reductions;
    sum += sent;
  }

  void waited(const OperationInfo&, Clock::time_point, Clock::time_point) override {}

  SentBytes gathers;
  SentBytes reductions;

 private:
  [[nodiscard]] std::size_t between(const OperationInfo& info, std::size_t sent_bytes) const {
    const auto algorithms = rings_and_pairs();
    const comm::Group group = comm::Group::all(rank_, ranks_);
    const comm::Chunks chunks = comm::Chunks::even({0, info.count}, ranks_);
    const comm::Schedule schedule =
        info.kind == OpKind::kAllGather       ? algorithms->all_gather(group, chunks)
        : info.kind == OpKind::kReduceScatter ? algorithms->reduce_scatter(group, chunks)
                                              : algorithms->all_to_all(group, chunks, chunks);
    std::size_t all = 0;
    std::size_t leaving = 0;
    for (const comm::Lane& lane : schedule.lanes) {
      for (const comm::Round& step : lane) {
        if (step.send_to == comm::kNobody || step.send_to == rank_) continue;
        const std::size_t bytes = step.send.range.size() * size_of(info.dtype);
        all += bytes;
        if (step.send_to / node_ != rank_ / node_) leaving += bytes;
      }
    }
    EXPECT_EQ(all, sent_bytes) << "the schedule is the one that was followed";
    return leaving;
  }

  int rank_;
  int ranks_;
  int node_;
};

class ZeroPlusPlusVolume : public ZeroPlusPlusTest {
 protected:
  /// Calls fn for each subset on worlds of 1 to 8 ranks.
  void for_cases(const std::function<void(const ZeroCase&)>& fn) {
    int ranks = 1;
    for (int round = 0; round < 2; ++round) {
      for (const std::string& list : all_techniques()) {
        ZeroCase c = draw_with(list, ranks, random.pick({DType::kF32, DType::kF64}));
        c.options.steps = 2;
        if (random.between(0, 2) == 0) {
          c.recompute = {.mode = memory::Recompute::kFull, .recompute_every = random.between(1, 2)};
        }
        ranks = ranks % 8 + 1;
        SCOPED_TRACE(list + ": " + text_of(c.settings.plus_plus));
        fn(c);
        if (HasFailure()) std::printf("%s\n", text_of(c.settings.plus_plus).c_str());
      }
    }
  }

  static RankOptions options(Progress progress = Progress::kOnCall) {
    RankOptions options = in_rank_order(progress);
    options.algorithms = rings_and_pairs();
    return options;
  }
};

std::vector<FlatLayout> layouts_of(const ZeroCase& c) {
  nn::DenseFactory factory;
  nn::Model model = deferred_model(c, factory);
  std::vector<FlatLayout> layouts;
  for (const ParameterGroup& group : groups_of(model, c)) layouts.push_back(group.layout);
  return layouts;
}

TEST_F(ZeroPlusPlusVolume, EveryRankSendsWhatTheClosedFormsSay) {
  for_cases([](const ZeroCase& c) {
    on_ranks(
        c,
        [&](Communicator& dp) {
          const ZeroPlusPlus& how = c.settings.plus_plus;
          NodeTraffic traffic(dp, how.node_size.value_or(static_cast<std::size_t>(c.ranks)));
          dp.set_observer(&traffic);
          static_cast<void>(train_zero(dp, c));
          dp.set_observer(nullptr);
          const StepVolume volume =
              sent_in_micro_batch(layouts_of(c), c.options.dtype, how,
                                  {.rank = dp.rank(), .ranks = c.ranks}, c.settings.reshard);
          const std::size_t times = c.options.steps * c.passes();
          EXPECT_EQ(traffic.gathers.total, times * (volume.forward.total + volume.backward.total));
          EXPECT_EQ(traffic.gathers.between,
                    times * (volume.forward.between + volume.backward.between));
          EXPECT_EQ(traffic.reductions.total, times * volume.reduce.total);
          EXPECT_EQ(traffic.reductions.between, times * volume.reduce.between);
        },
        options());
  });
}

}  // namespace
}  // namespace ultra::zero
