// The token after next on meshes: the last stage holds the token table a second time, and whatever the
// layout the ranks compute what one rank computes.
//
// Covers: chapters/07_pipeline_parallel/pipeline_parallel.hpp

#include "tests/chapters/07_pipeline_parallel/pipeline_run.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::pipeline_parallel {
namespace {

using namespace pipeline_parallel::test;

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
