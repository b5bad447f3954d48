// The token after next on meshes: the last stage holds the token table a second time, and whatever the
// layout the ranks compute what one rank computes.
//
// Covers: chapters/07_pipeline_parallel/pipeline_parallel.hpp

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "tests/chapters/07_pipeline_parallel/pipeline_run.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/training/mask_file.hpp"

namespace ultra::pipeline_parallel {
namespace {

using namespace pipeline_parallel::test;
using ::testing::HasSubstr;

class MultiTokenTraining : public PipelineTest {
 protected:
  MeshCase draw(const Axes& axes, const std::string& schedule, DType dtype = DType::kF64) {
    MeshCase c = PipelineTest::draw(axes, schedule, dtype);
    c.options.model.mtp = true;
    c.options.mtp_weight = random.uniform(0.1, 1.0);
    return c;
  }
  std::string any_schedule() {
    return random.pick({"afab", "1f1b", "interleaved:2", "zero-bubble-h1", "zero-bubble-h2"});
  }
};

TEST_F(MultiTokenTraining, EveryScheduleWithoutAVComputesWhatOneRankComputes) {
  for (const char* schedule : {"naive", "afab", "1f1b", "interleaved:2", "breadth-first:2",
                               "zero-bubble-h1", "zero-bubble-h2"}) {
    for (const std::size_t pp : {2U, 3U}) {
      MeshCase c = draw({.pp = pp}, schedule);
      cut(c, pp * random.between(1, 2));
      expect_equals_one_rank(c);
    }
  }
}

TEST_F(MultiTokenTraining, StagesOfZeroWithATableThatTwoStagesHold) {
  for (const bool tied : {false, true}) {
    for (const char* more :
         {"--zero 1", "--zero 2", "--zero 3", "--zero 3 --prefetch 2 --reshard-after-forward no",
          "--check-replicas 1", "--zero 2 --overlap none", "--zero 2 --bucket-mb 0.0003",
          "--overlap bucketed --bucket-mb 0.0003", "--zero 3 --offload optimizer+params"}) {
      const std::size_t pp = random.pick({1U, 2U});
      MeshCase c = draw({.dp = 2, .pp = pp}, pp == 1 ? "1f1b" : any_schedule());
      c.options.model.tied_embeddings = tied;
      cut(c, 2);
      c.more = more;
      expect_equals_one_rank(c);
    }
  }
}

TEST_F(MultiTokenTraining, MeshesOfEveryAxis) {
  using Mesh = std::tuple<std::size_t, std::size_t, std::size_t, std::size_t>;  // dp, pp, cp, tp
  for (const auto& [dp, pp, cp, tp] : std::vector<Mesh>{
           {1, 1, 1, 2}, {1, 1, 2, 1}, {1, 2, 1, 2}, {1, 2, 2, 1}, {2, 2, 1, 2}, {1, 2, 2, 2}}) {
    MeshCase c = draw({.dp = dp, .pp = pp, .cp = cp, .tp = tp}, pp == 1 ? "1f1b" : any_schedule());
    c.options.model.tied_embeddings = random.pick({true, false});
    c.more = tp > 1 ? random.pick({"--sp on", "--sp off", "--sp on --tp-overlap ring"}) : "";
    if (cp > 1) c.more += random.pick({" --cp-layout zigzag", " --cp-layout contiguous"});
    cut(c, pp * random.between(1, 2));
    c.more += fmt::format(" --zero {} {}", random.between(0, 3),
                          random.pick({"", "--recompute full", "--recompute selective"}));
    expect_equals_one_rank(c);
  }
}

// A document's end stops the shift on every rank of cp, wherever its tokens are.
TEST_F(MultiTokenTraining, DocumentsAndTokensWithoutALoss) {
  for (const std::size_t length : {2U, 5U}) {
    MeshCase c = draw({.pp = random.pick({1U, 2U}), .cp = 2}, "1f1b");
    c.options.doc_length = length;
    c.options.mask = ultra::test::mask_file(random, 0.6);
    cut(c, 2);
    expect_equals_one_rank(c);
  }
}

TEST_F(MultiTokenTraining, InF32LossesStayWithinAHundredThousandth) {
  MeshCase c = draw({.pp = 2}, "1f1b", DType::kF32);
  cut(c, 4);
  expect_near_one_rank_in_f32(c);
}

// The two ends of a V are on one rank: two tables on it, whose gradients nobody adds up.
TEST_F(MultiTokenTraining, WhatCannotShareTheTableIsRefusedInWords) {
  MeshCase c = draw({.pp = 2}, "zb-v");
  c.options.clip_norm = 0;
  cut(c, 2);
  const auto refusal = [&](const char* schedule) {
    c.layout = fmt::format("--schedule {}", schedule);
    return ultra::test::message_of<ConfigError>([&] { static_cast<void>(c.setup()); });
  };
  EXPECT_THAT(refusal("zb-v"), HasSubstr("--mtp does not go together with --schedule zb-v: the "
                                         "first rank has both ends"));
  EXPECT_THAT(refusal("dualpipe-v"), HasSubstr("both ends of the model"));
  EXPECT_THAT(refusal("pipedream-async"),
              HasSubstr("--mtp does not go together with --schedule pipedream-async"));
}

// Weights of the last stage: its blocks, norm and head; the table once more; the module.
TEST_F(MultiTokenTraining, TheLastStageHoldsTheTableAndTheModule) {
  MeshCase c = draw({.pp = 2}, "1f1b", DType::kF32);
  cut(c, 2);
  c.options.model.num_layers = 4;
  c.more = "--stage-split 2,2";
  const nn::ModelConfig& m = c.options.model;
  const std::size_t h = m.hidden_size;
  const std::size_t block =
      2 * h + 2 * h * m.q_hidden_size() + 2 * h * m.kv_hidden_size() + 3 * h * m.ffn_hidden_size;
  const std::size_t table = m.vocab_size * h;
  const auto ranks = summaries(c);
  if (ranks.empty()) return;  // the process of rank 0 has them
  const auto weights = [&](std::size_t rank) {
    return ranks.at(rank).memory.peak(MemoryCategory::kParameters).bytes / sizeof(float);
  };
  EXPECT_EQ(weights(0), 2 * block + table);
  EXPECT_EQ(weights(1), 2 * block + h + table + table + (block + 2 * h * h + 3 * h));
}

}  // namespace
}  // namespace ultra::pipeline_parallel
