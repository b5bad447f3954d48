// What Newton-Schulz steps and batches of matrices cost, in recorded steps of ranks that nobody runs.
//
// Covers: common/optim/newton_schulz.hpp, chapters/04_zero/whole_matrices/whole_matrices.hpp

#include "chapters/01_memory/memory.hpp"
#include "chapters/02_collectives/collectives.hpp"
#include "chapters/03_data_parallel/data_parallel.hpp"
#include "chapters/04_zero/zero.hpp"
#include "common/optim/newton_schulz.hpp"
#include "common/train/cli/run_techniques.hpp"
#include "common/train/elsewhere/record_step.hpp"
#include "tests/support/expect_message.hpp"
#include "tests/support/programs/command_line.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

class MuonRecorded : public test::RandomTest {
 protected:
  static train::Setup parsed(int ranks, const std::string& flags) {
    return train::parse_setup(
        train::list_of(memory::technique(), collectives::technique(), data_parallel::technique(),
                       technique()),
        test::words_of(fmt::format("--dp {} --on dgx-h100 {}", ranks, flags)));
  }

  /// FLOP of all ranks in a step.
  static double flop(int ranks, const std::string& flags) {
    const train::Setup setup = parsed(ranks, flags);
    double flop = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const train::RecordedRank recorded = train::record_step(setup, rank);
      for (const gpu::TapedWork& work : recorded.tape->works) flop += work.flop;
    }
    return flop;
  }
};

// Of a square matrix of m rows: 30 m^3 for five steps, beside 6 m^2 for each of B tokens.
TEST_F(MuonRecorded, TakesFiveTimesWidthOverTokensOfAStepsFlop) {
  const std::size_t m = 8 * random.between(1, 6);
  const std::size_t layers = random.between(1, 3);
  const std::size_t batch = random.between(1, 4);
  const std::size_t seq = 4 * random.between(1, 5);
  const std::string flags = fmt::format(
      "--layers {} --hidden {} --heads 4 --kv-heads 4 --ffn {} --seq {} "
      "--global-batch {} --micro-batch 1",
      layers, m, m, seq, batch);
  const double more = flop(1, flags + " --optimizer muon") - flop(1, flags);
  const auto tokens = static_cast<double>(batch * seq);
  const auto matrices = static_cast<double>(7 * layers * m * m);
  EXPECT_EQ(more / (6 * matrices * tokens), 5 * static_cast<double>(m) / tokens);
}

// Every rank for itself computes all of them; where the matrices are dealt out, each once.
TEST_F(MuonRecorded, ZeroDealsTheStepsOut) {
  const std::string flags =
      "--layers 3 --hidden 24 --heads 4 --kv-heads 2 --ffn 40 --seq 8 --global-batch 6 "
      "--micro-batch 1";
  const double steps = 3.0 * static_cast<double>(2 * optim::newton_schulz_flops(24, 24) +
                                                 2 * optim::newton_schulz_flops(12, 24) +
                                                 3 * optim::newton_schulz_flops(40, 24));
  for (const int ranks : {1, 2, 3}) {
    EXPECT_EQ(flop(ranks, flags + " --optimizer muon") - flop(ranks, flags), ranks * steps);
    for (const char* stage : {"1", "2", "3"}) {
      const std::string sharded = fmt::format("{} --zero {}", flags, stage);
      EXPECT_EQ(flop(ranks, sharded + " --optimizer muon") - flop(ranks, sharded), steps)
          << ranks << " ranks, ZeRO-" << stage;
    }
  }
}

// Rows of square matrices: of 4 b of them a rank has as much as of the b that it owns. What the passes gather
// is there before and after.
TEST_F(MuonRecorded, ABatchTakesMemoryForItsMatricesAlone) {
  const std::size_t m = 8 * random.between(1, 4);
  const std::string flags = fmt::format(
      "--zero 3 --shards rows --layers 16 --hidden {} --heads 4 --kv-heads 4 --ffn {} --seq 8 "
      "--global-batch 4 --micro-batch 1",
      m, m);
  const auto recorded = [&](const std::string& more) {
    return train::record_step(parsed(4, flags + more), 1);
  };
  const auto buffers = [](const train::RecordedRank& rank) {
    return rank.memory.peak(MemoryCategory::kCommunication).bytes;
  };
  const auto sent = [](const train::RecordedRank& rank) {
    return rank.sent[OpKind::kAllToAll].sent_bytes;
  };
  const std::size_t of_passes = buffers(recorded(""));
  const train::RecordedRank all = recorded(" --optimizer muon");
  EXPECT_EQ(buffers(all), std::max(of_passes, 4 * 2 * 28 * m * m));
  EXPECT_EQ(sent(all), 4 * 2 * 28 * m * m * 3 / 4);
  for (const std::size_t batch : {1U, 3U, 14U, 27U, 28U, 100U}) {
    const train::RecordedRank some =
        recorded(fmt::format(" --optimizer muon --muon-batch {}", batch));
    EXPECT_EQ(buffers(some), std::max(of_passes, 4 * 2 * std::min<std::size_t>(batch, 28) * m * m))
        << batch;
    EXPECT_EQ(sent(some), sent(all)) << batch;
  }
}

TEST_F(MuonRecorded, NoOtherRuleHasBatchesOfMatrices) {
  test::expect_message<ConfigError>(
      [] { static_cast<void>(parsed(2, "--zero 1 --muon-batch 1")); },
      {"--muon-batch has no meaning without --optimizer muon", "adamw"});
}

}  // namespace
}  // namespace ultra::zero
