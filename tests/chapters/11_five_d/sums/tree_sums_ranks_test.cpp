// The promise of --sums tree: every byte of a training's losses, norms and weights is the same on any mesh.
//
// Covers: chapters/11_five_d/sums/tree_sums.hpp, chapters/11_five_d/sums/limits.hpp
// Covers: chapters/04_zero/shards/tree_reducer.hpp, chapters/11_five_d/sums/parted_norm.hpp
// Covers: chapters/11_five_d/sums/tied_table.hpp, chapters/11_five_d/sums/tree_experts.hpp

#include "chapters/11_five_d/sums/tree_sums.hpp"

#include "common/comm/run_ranks.hpp"
#include "tests/chapters/11_five_d/sums/random_meshes.hpp"
#include "tests/support/files/temporary_folder.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/rank_runs.hpp"
#include "tests/support/training/short_run.hpp"

namespace ultra::five_d {
namespace {

using test::Bits;
using test::bits_of;
using test::Configuration;
using test::run_of_first;

class TreeSumsOnMeshes : public ultra::test::RandomTest {
 protected:
  /// Meshes of every kind in turn.
  static void expect_bits_of_one_rank(test::RandomMeshes meshes, std::size_t count) {
    const char* const kinds[] = {
        "--sums", "--cp",      "--sp",       "--precision", "--tied-embeddings",
        "--ep",   "--qk-norm", "--attention"};
    for (std::size_t i = 0; i < count && !HasFailure(); ++i) {
      const Configuration many = meshes.draw_with(kinds[i % std::size(kinds)]);
      const Configuration one = meshes.alone(many);
      EXPECT_TRUE(bits_of(many) == bits_of(one)) << many.line() << "\n" << one.line();
    }
  }
};

TEST_F(TreeSumsOnMeshes, TrainToTheBitsOfOneRank) {
  const auto processes = launched_world_size();
  expect_bits_of_one_rank({random, processes ? static_cast<std::size_t>(*processes) : 16},
                          processes ? 10 : 30);
}

TEST_F(TreeSumsOnMeshes, OfDevicesTrainToTheBitsOfOneDevice) {
  if (launched_world_size()) GTEST_SKIP() << "threads show it";
  expect_bits_of_one_rank({random, 8, "emulated"}, 8);
}

// And one rank's bits are those of the default's sums, to rounding; of which Muon's steps would make more.
TEST_F(TreeSumsOnMeshes, AreNearTheSumsOfTheDefault) {
  test::RandomMeshes meshes(random, 1);
  for (const char* kind :
       {"--sums", "--tied-embeddings", "--experts", "--experts", "--attention"}) {
    const Configuration tree = meshes.draw_with(kind, "f64").with("--optimizer", "adamw");
    const auto by_trees = run_of_first(tree);
    const auto by_default = run_of_first(tree.with("--sums", "fast"));
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
  EXPECT_THAT(message_of<NumericError>([&] { static_cast<void>(run_of_first(diverging)); }),
              HasSubstr("Training diverged"));
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
    return run_of_first(configuration)->result.ranks.front().communication.sent_bytes();
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
                                     {"--seq", "64"},
                                     {"--kv-heads", "4"},
                                     {"--global-batch", "8"},
                                     {"--steps", "4"},
                                     {"--precision", random.pick({"fp32", "bf16"})},
                                     {"--seed", std::to_string(random.between(1, 1000))}},
                           .layout = {}};
  const auto on = [&](std::vector<test::Flag> layout) {
    Configuration configuration = base;
    configuration.layout = std::move(layout);
    return configuration;
  };
  const Bits stayed = bits_of(on({{"--micro-batch", "8"}}));
  const std::string first = folder.path("first");
  const std::string second = folder.path("second");
  static_cast<void>(bits_of(on({{"--dp", "2"},
                                {"--tp", "2"},
                                {"--zero", "1"},
                                {"--micro-batch", "1"},
                                {"--save-every", "1"},
                                {"--checkpoint", first}})));
  static_cast<void>(bits_of(on({{"--pp", "2"},
                                {"--cp", "2"},
                                {"--cp-layout", "contiguous"},
                                {"--cp-method", "all-gather"},
                                {"--schedule", "zero-bubble-h1"},
                                {"--micro-batch", "1"},
                                {"--save-every", "1"},
                                {"--resume", first + "/step-00000001"},
                                {"--checkpoint", second}})));
  const Bits moved = bits_of(on({{"--tp", "4"},
                                 {"--sp", "on"},
                                 {"--zero", "3"},
                                 {"--micro-batch", "8"},
                                 {"--resume", second + "/step-00000003"}}));
  EXPECT_TRUE(moved == stayed) << "its record has the steps of all three meshes";
}

}  // namespace
}  // namespace ultra::five_d
