// The promise of --sums tree: every byte of a training's losses, norms and weights is the same on any mesh.
//
// Covers: chapters/11_five_d/sums/tree_sums.hpp, chapters/11_five_d/sums/limits.hpp
// Covers: chapters/04_zero/shards/tree_reducer.hpp

#include "chapters/11_five_d/sums/tree_sums.hpp"

#include <bit>

#include "chapters/07_pipeline_parallel/lists/schedules.hpp"
#include "chapters/07_pipeline_parallel/schedule/schedule_choice.hpp"
#include "common/base/numeric.hpp"
#include "common/comm/run_ranks.hpp"
#include "tests/chapters/11_five_d/composition/configuration.hpp"
#include "tests/support/files/temporary_folder.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/mask_file.hpp"
#include "tests/support/training/rank_runs.hpp"
#include "tests/support/training/short_run.hpp"

namespace ultra::five_d {
namespace {

using test::Configuration;
using ultra::test::RankRun;

/// Losses, norms, validation losses and weights; empty in a process that is not the first.
using Bits = std::vector<std::uint64_t>;

Bits bits_of(const RankRun& run) {
  Bits bits;
  const auto add = [&](double number) { bits.push_back(std::bit_cast<std::uint64_t>(number)); };
  for (const train::StepMetrics& step : run.result.steps) {
    add(step.loss);
    add(step.grad_norm);
    add(step.validation_loss.value_or(0.0));
  }
  for (const std::vector<double>& weight : run.weights) std::ranges::for_each(weight, add);
  return bits;
}

/// The training of rank 0, in the process that has it.
std::optional<RankRun> run_of(const Configuration& configuration) {
  std::optional<RankRun> found;
  RankOptions options = test::setup_of(configuration).rank_options();
  options.timeout = std::chrono::seconds(60);
  static_cast<void>(ultra::test::quietly([&] {
    run_ranks(
        checked_cast<int>(configuration.ranks()),
        [&](Communicator& world) {
          RankRun run = ultra::test::run_of(test::setup_of(configuration), world);
          if (world.rank() == 0) found = std::move(run);
        },
        options);
  }));
  return found;
}

Bits trained(const Configuration& configuration) {
  const std::optional<RankRun> run = run_of(configuration);
  return run ? bits_of(*run) : Bits();
}

class TreeSumsOnMeshes : public ultra::test::RandomTest {
 protected:
  bool percent(std::size_t chance) { return random.between(1, 100) <= chance; }
  std::size_t power_of_two(std::size_t most_bits) {
    return std::size_t{1} << random.between(0, most_bits);
  }

  /// Any mesh of these axes, and any model: of which some have no trees that the mesh cuts at nodes.
  Configuration draw_any(std::size_t most_ranks) {
    Configuration drawn;
    const auto model = [&](const char* flag, const std::string& value) {
      drawn.model.emplace_back(flag, value);
    };
    const auto number = [&](const char* flag, std::size_t value) {
      model(flag, std::to_string(value));
    };
    const auto layout = [&](const char* flag, const std::string& value) {
      drawn.layout.emplace_back(flag, value);
    };
    std::size_t dp = 1;
    std::size_t tp = 1;
    std::size_t pp = 1;
    do {
      dp = random.pick({1U, 2U, 2U, 3U, 4U});
      tp = random.pick({1U, 2U, 2U, 4U});
      pp = random.pick({1U, 1U, 2U, 3U, 4U});
    } while (dp * tp * pp > most_ranks);
    for (const auto& [flag, ranks] : {std::pair{"--dp", dp}, {"--tp", tp}, {"--pp", pp}}) {
      if (ranks > 1) layout(flag, std::to_string(ranks));
    }
    std::size_t chunks = 1;
    if (pp > 1) {
      const auto all = pipeline_parallel::all_schedules();
      pipeline_parallel::ScheduleChoice choice = all[random.between(0, all.size() - 1)];
      if (choice.takes_chunks()) choice.interleaved_chunks = random.between(1, 2);
      chunks = choice.chunks();
      layout("--schedule", choice.str());
    }
    const std::size_t kv_heads = tp * random.between(1, 2);
    const std::size_t heads = kv_heads * random.between(1, 2);
    model("--sums", "tree");
    number("--layers", pp * chunks);
    number("--heads", heads);
    number("--kv-heads", kv_heads);
    number("--head-dim", random.pick({4U, 8U, 12U, 16U, 34U}));
    number("--hidden", random.pick({16U, 20U, 24U, 32U, 46U}));
    number("--ffn", tp * random.pick({11U, 16U, 24U, 32U}));
    number("--vocab", random.pick({256U, 264U, 384U}));
    number("--seq", random.pick({7U, 9U, 16U, 17U, 24U, 32U, 40U}));
    const std::size_t micro_batch = power_of_two(1);
    const std::size_t share = micro_batch * (dp > 1 ? power_of_two(2) : random.between(1, 5));
    number("--global-batch", dp * share);
    layout("--micro-batch", std::to_string(micro_batch));
    model("--dtype", percent(75) ? "f32" : "f64");
    model("--data", ultra::test::kText);
    number("--steps", 2);
    number("--warmup", 1);
    number("--seed", random.between(1, 1000));
    model("--clip", random.pick({"0", "0.05", "1"}));
    if (percent(30)) model("--optimizer", "sgd");
    if (percent(25)) model("--qkv-bias", "");
    if (percent(20)) model("--doc-length", std::to_string(random.between(2, 9)));
    if (percent(15)) model("--mask", ultra::test::mask_file(random, 0.5));
    if (percent(15)) {
      model("--val-data", ultra::test::kText);
      model("--val-batches", "2");
    }
    const std::size_t zero = random.between(0, 3);
    if (zero > 0) layout("--zero", std::to_string(zero));
    if (zero == 3 && percent(40)) layout("--shards", "rows");
    if (percent(40)) layout("--overlap", random.pick({"none", "bucketed"}));
    if (percent(40) && zero < 3) layout("--bucket-mb", random.pick({"0.0003", "0.002", "0.01"}));
    if (percent(40)) layout("--recompute", random.pick({"selective", "full"}));
    return drawn;
  }

  /// One that has such trees.
  Configuration draw(std::size_t most_ranks) {
    for (;;) {
      Configuration drawn = draw_any(most_ranks);
      if (test::refusal_of(drawn).empty()) return drawn;
    }
  }

  /// One rank, with micro-batches of another size.
  Configuration alone(const Configuration& configuration) {
    Configuration one = configuration.alone();
    std::size_t micro_batch = 1;
    const std::size_t batch = one.count_of("--global-batch");
    while (batch % (2 * micro_batch) == 0 && percent(60)) micro_batch *= 2;
    one.layout.emplace_back("--micro-batch", std::to_string(micro_batch));
    return one;
  }
};

TEST_F(TreeSumsOnMeshes, TrainToTheBitsOfOneRank) {
  const auto processes = launched_world_size();
  const std::size_t most_ranks = processes ? static_cast<std::size_t>(*processes) : 16;
  for (int i = 0; i < (processes ? 8 : 100) && !HasFailure(); ++i) {
    const Configuration many = draw(most_ranks);
    const Configuration one = alone(many);
    EXPECT_TRUE(trained(many) == trained(one)) << many.line() << "\n" << one.line();
  }
}

// And one rank's bits are those of the default's sums, to rounding.
TEST_F(TreeSumsOnMeshes, AreNearTheSumsOfTheDefault) {
  for (int i = 0; i < 4; ++i) {
    const Configuration tree = draw(1).with("--dtype", "f64");
    const std::optional<RankRun> by_trees = run_of(tree);
    const std::optional<RankRun> by_default = run_of(tree.with("--sums", "fast"));
    if (!by_trees || !by_default) continue;  // another process has them
    SCOPED_TRACE(tree.line());
    ultra::test::expect_near_losses(*by_trees, *by_default, 1e-10);
    ultra::test::expect_near_norms(*by_trees, *by_default, 1e-10);
    ultra::test::expect_near_weights(*by_trees, *by_default, 1e-10);
  }
}

// What is not finite has no exact sum, and stops the training in the same words.
TEST_F(TreeSumsOnMeshes, StopWhenALossIsNotFinite) {
  if (launched_world_size()) GTEST_SKIP() << "a process ends as another one tells it to";
  const Configuration diverging{.model = {{"--sums", "tree"},
                                          {"--data", ultra::test::kText},
                                          {"--seq", "16"},
                                          {"--optimizer", "sgd"},
                                          {"--clip", "0"},
                                          {"--warmup", "0"},
                                          {"--lr", "1e30"}},
                                .layout = {{"--micro-batch", "2"}}};
  EXPECT_THAT(message_of<NumericError>([&] { static_cast<void>(run_of(diverging)); }),
              HasSubstr("Training diverged"));
}

// The first test can tell: without the flag, layouts agree to rounding alone.
TEST_F(TreeSumsOnMeshes, TrainToOtherBitsWithoutThem) {
  if (launched_world_size()) GTEST_SKIP() << "a process does not see what the others end with";
  Configuration many{.model = {{"--data", ultra::test::kText}, {"--seq", "32"}, {"--steps", "3"}},
                     .layout = {{"--dp", "2"}, {"--tp", "2"}, {"--micro-batch", "2"}}};
  EXPECT_FALSE(trained(many) == trained(many.alone()));
}

// Along tp, q, k and v have an exchange each instead of one, and gate and up, too; and losses and squares have
// all digits.
TEST_F(TreeSumsOnMeshes, ExchangeAnInputsGradientOnceForEachMap) {
  if (launched_world_size()) GTEST_SKIP() << "processes do not share what they count";
  const std::size_t layers = random.between(1, 3);
  const auto sent = [&](const char* sums) {
    const Configuration configuration{.model = {{"--sums", sums},
                                                {"--data", ultra::test::kText},
                                                {"--layers", std::to_string(layers)},
                                                {"--hidden", "32"},
                                                {"--heads", "2"},
                                                {"--kv-heads", "2"},
                                                {"--ffn", "32"},
                                                {"--seq", "16"},
                                                {"--global-batch", "4"},
                                                {"--micro-batch", "2"},
                                                {"--all-reduce", "pairwise-tree"},
                                                {"--steps", "1"}},
                                      .layout = {{"--tp", "2"}}};
    return run_of(configuration)->result.ranks.front().communication.sent_bytes();
  };
  // Of two ranks, each sends an array once in its all-reduce.
  const std::size_t exchange = 2 * 16 * 32 * size_of(DType::kF32);
  const std::size_t parameters = 3 + 9 * layers;
  const std::size_t digits = 18 * (parameters + 1) * size_of(DType::kF64);
  EXPECT_EQ(sent("tree") - sent("fast"), 2 * layers * 3 * exchange + digits);
}

// A training that moves to other meshes, twice, ends with the bytes of one that never did.
TEST_F(TreeSumsOnMeshes, MoveBetweenMeshesToTheBitsOfATrainingThatStays) {
  if (launched_world_size()) GTEST_SKIP() << "meshes of other sizes than mpirun started";
  const ultra::test::TemporaryFolder folder;
  const Configuration base{.model = {{"--sums", "tree"},
                                     {"--data", ultra::test::kText},
                                     {"--layers", "4"},
                                     {"--seq", "24"},
                                     {"--kv-heads", "4"},
                                     {"--global-batch", "8"},
                                     {"--steps", "4"},
                                     {"--seed", std::to_string(random.between(1, 1000))}},
                           .layout = {}};
  const auto on = [&](std::vector<test::Flag> layout) {
    Configuration configuration = base;
    configuration.layout = std::move(layout);
    return configuration;
  };
  const Bits stayed = trained(on({{"--micro-batch", "8"}}));
  const std::string first = folder.path("first");
  const std::string second = folder.path("second");
  static_cast<void>(trained(on({{"--dp", "2"},
                                {"--tp", "2"},
                                {"--zero", "1"},
                                {"--micro-batch", "1"},
                                {"--save-every", "1"},
                                {"--checkpoint", first}})));
  static_cast<void>(trained(on({{"--pp", "4"},
                                {"--schedule", "zero-bubble-h1"},
                                {"--micro-batch", "2"},
                                {"--save-every", "1"},
                                {"--resume", first + "/step-00000001"},
                                {"--checkpoint", second}})));
  const Bits moved = trained(on({{"--tp", "4"},
                                 {"--zero", "3"},
                                 {"--micro-batch", "8"},
                                 {"--resume", second + "/step-00000003"}}));
  EXPECT_TRUE(moved == stayed) << "its record has the steps of all three meshes";
}

}  // namespace
}  // namespace ultra::five_d
