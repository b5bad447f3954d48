#include "chapters/01_memory/memory.hpp"

#include "common/train/cli/run_techniques.hpp"
#include "tests/support/programs/command_line.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::memory {
namespace {

train::Setup setup_of(const std::string& flags) {
  return train::parse_setup(train::list_of(technique()), ultra::test::words_of(flags));
}

TEST(Memory, NothingIsComputedAgainUnlessAsked) {
  const train::Setup setup = setup_of("");
  EXPECT_EQ(recompute_of(setup), RecomputeConfig{});
  EXPECT_EQ(setup.techniques.front()->config(setup),
            (train::ExtraConfig{{"recompute", "none"}, {"recompute_every", std::size_t{1}}}));
}

TEST(Memory, RecomputationReachesTheMetrics) {
  const train::Setup setup = setup_of("--recompute full --recompute-every 3");
  EXPECT_EQ(recompute_of(setup), (RecomputeConfig{.mode = Recompute::kFull, .recompute_every = 3}));
  EXPECT_EQ(setup.techniques.front()->config(setup),
            (train::ExtraConfig{{"recompute", "full"}, {"recompute_every", std::size_t{3}}}));
}

TEST(Memory, ModesAreReadAsTheyAreWritten) {
  for (const Recompute mode : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
    EXPECT_EQ(parse_recompute(std::string(to_string(mode))), mode);
  }
}

// h 8, kv 8, f 16, V 256, L 1, e 4, 2 x 4 tokens:
// parameters 2 V h + (2 h^2 + 2 h kv + 3 h f + 2 h) + h = 4096 + 656 + 8 = 4760;
// activations 4 * 8 tokens * (6 h + 2 kv + 3 f + a + 2 = 116, and 2 h + 1 + V = 273) + 8 * 4.
TEST(Memory, ItsFormulasAreInBytes) {
  const std::string model =
      "--vocab 256 --hidden 8 --layers 1 --heads 2 --kv-heads 2 --ffn 16 --seq 4 --micro-batch 2 "
      "--global-batch 2 ";
  const auto bytes = [&](const std::string& flags) {
    const train::Formulas formulas = setup_of(model + flags).formulas();
    EXPECT_EQ(formulas.size(), 1U);
    EXPECT_EQ(formulas.front().exercise, "01.1");
    return formulas.front().bytes;
  };
  using Bytes = std::array<std::optional<std::size_t>, kNumMemoryCategories>;
  EXPECT_EQ(bytes(""), (Bytes{4 * 4760, 4 * 4760, 8 * 4760, 32 * 389 + 32, {}, {}}));
  EXPECT_EQ(bytes("--dtype f64"), (Bytes{8 * 4760, 8 * 4760, 16 * 4760, 64 * 389 + 32, {}, {}}));
  EXPECT_EQ(bytes("--optimizer sgd"), (Bytes{4 * 4760, 4 * 4760, 4 * 4760, 32 * 389 + 32, {}, {}}));
}

}  // namespace
}  // namespace ultra::memory
