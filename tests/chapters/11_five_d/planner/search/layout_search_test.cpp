// The search beside trying everything, and its speed-independent properties.
//
// Covers: chapters/11_five_d/planner/search/layout_search.hpp
#include "chapters/11_five_d/planner/search/layout_search.hpp"

#include <set>

#include "chapters/11_five_d/planner/fit.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::planner {
namespace {

using memory::Recompute;
using pipeline_parallel::ScheduleKind;
using zero::ZeroStage;

Question question(const char* model, std::size_t seq, std::size_t batch) {
  return {.work = {.model = *find_model(model), .seq_len = seq, .global_batch = batch},
          .cluster = *replay::find_cluster("dgx-h100"),
          .software = find_software("modern")};
}

/// Every combination of numbers up to the GPUs, with no thought at all.
std::vector<Prediction> by_brute_force(const Question& q, std::size_t gpus) {
  std::vector<Prediction> all;
  const auto try_layout = [&](const Layout& layout) {
    if (layout.gpus() != gpus || why_impossible(q.work, layout)) return;
    if (!fit(q, layout).fits) return;
    all.push_back(predict(q, layout));
  };
  for (std::size_t tp = 1; tp <= std::min<std::size_t>(gpus, 16); ++tp) {
    for (std::size_t pp = 1; pp <= gpus; ++pp) {
      for (std::size_t dp = 1; dp <= gpus; ++dp) {
        for (const std::size_t b : {1U, 2U, 4U, 8U, 16U}) {
          for (const Recompute mode : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
            for (int stage = 0; stage <= (pp > 1 ? 1 : 3); ++stage) {
              if (dp == 1 && stage > 0) continue;
              Layout layout{.dp = dp, .pp = pp, .tp = tp};
              layout.zero = static_cast<ZeroStage>(stage);
              layout.micro_batch = b;
              layout.recompute = mode;
              layout.sequence_parallel = tp > 1;
              try_layout(layout);
              for (const ScheduleKind kind :
                   {ScheduleKind::kZeroBubbleH1, ScheduleKind::kZbV, ScheduleKind::kDualPipeV}) {
                layout.schedule.kind = kind;
                try_layout(layout);
              }
              layout.schedule.kind = ScheduleKind::kInterleaved;
              const std::size_t layers = q.work.model.shape().num_layers;
              for (std::size_t v = 2; v <= (layers + 2) / pp; ++v) {
                layout.schedule.interleaved_chunks = v;
                if (layers % (pp * v) == 0 || (layers + 2) % (pp * v) == 0) try_layout(layout);
              }
            }
          }
        }
      }
    }
  }
  return all;
}

TEST(LayoutSearch, FindsWhatTryingEverythingFinds) {
  for (const auto& [model, gpus, batch] :
       {std::tuple{"llama-1b", 4U, 16U}, std::tuple{"llama-8b", 12U, 48U},
        std::tuple{"llama2-13b", 16U, 64U}}) {
    const Question q = question(model, 4096, batch);
    std::vector<Prediction> all = by_brute_force(q, gpus);
    ASSERT_FALSE(all.empty());
    std::ranges::sort(all, {}, [](const Prediction& p) { return p.step.total(); });
    const SearchResult found = search_layouts(q, {.gpus = gpus}, 10);
    EXPECT_EQ(found.possible - found.too_large, all.size()) << model;
    ASSERT_EQ(found.best.size(), std::min<std::size_t>(10, all.size()));
    for (std::size_t i = 0; i < found.best.size(); ++i) {
      EXPECT_DOUBLE_EQ(found.best[i].step.total(), all[i].step.total()) << model << " " << i;
    }
  }
}

TEST(LayoutSearch, EveryLayoutOnceAndPossible) {
  const Workload work = question("mixtral-8x7b", 8192, 64).work;
  std::set<std::string> seen;
  for_each_layout(work, {.gpus = 16}, [&](const Layout& layout) {
    EXPECT_EQ(layout.gpus(), 16U);
    EXPECT_FALSE(why_impossible(work, layout)) << layout.str();
    EXPECT_TRUE(seen.insert(layout.str()).second) << layout.str();
  });
  EXPECT_GT(seen.size(), 100U);
}

TEST(LayoutSearch, CopiesInNodesWhereTheNetworkIsSlow) {
  Question q = question("llama-8b", 4096, 512);
  SearchSpace space{.gpus = 64, .node = 8, .hybrid = true};
  space.only.tp = {1};
  space.only.zero = {ZeroStage::kParameters};
  EXPECT_EQ(search_layouts(q, space, 1).best.front().layout.copies, 1U) << "400 Gbit/s a GPU";
  q.cluster.inter.bandwidth /= 32;
  const Layout slow = search_layouts(q, space, 1).best.front().layout;
  EXPECT_EQ(slow.copies, 8U);
  EXPECT_EQ(slow.shard_ranks(), 8U);
}

TEST(LayoutSearch, OrdersOfRanksWhereTheirGroupsLieElsewhere) {
  const Workload work = question("llama-8b", 4096, 64).work;
  const auto orders = [&](std::size_t tp) {
    std::set<Outermost> found;
    SearchSpace space{.gpus = 16, .orders = {Outermost::kData, Outermost::kPipeline}, .node = 8};
    space.only.pp = {2};
    space.only.tp = {tp};
    for_each_layout(work, space, [&](const Layout& layout) { found.insert(layout.outermost); });
    return found.size();
  };
  EXPECT_EQ(orders(2), 2U) << "four replicas in a node, or two of both stages";
  EXPECT_EQ(orders(8), 1U) << "one replica, of two nodes";
}

TEST(LayoutSearch, CountsWhatIsNearTheFastest) {
  const Question q = question("llama-8b", 4096, 64);
  const SearchSpace space{.gpus = 16, .offloads = false};
  const SearchResult found = search_layouts(q, space, 1);
  double fastest = std::numeric_limits<double>::infinity();
  std::vector<double> seconds;
  for_each_layout(q.work, space, [&](const Layout& layout) {
    if (!fit(q, layout).fits) return;
    seconds.push_back(predict(q, layout, PipelineTime::kClosedForm).step.total());
    fastest = std::min(fastest, seconds.back());
  });
  const auto near = std::ranges::count_if(
      seconds, [&](double one) { return one <= (1 + kTypicalError) * fastest; });
  EXPECT_EQ(found.near, static_cast<std::size_t>(near));
  EXPECT_GE(found.near, 1U);
}

TEST(LayoutSearch, WhenNothingFitsTheNearestIsNamed) {
  const SearchResult found = search_layouts(question("llama-405b", 4096, 64), {.gpus = 8}, 10);
  EXPECT_TRUE(found.best.empty());
  EXPECT_EQ(found.too_large, found.possible);
  EXPECT_EQ(found.smallest_model_parallel, 0U);
  EXPECT_EQ(found.nearly.size(), 1U);
}

TEST(LayoutSearch, WhatFitsOnlyWithTheHostsMemoryIsOffloaded) {
  // 8 billion parameters: 96 GB of moments and master weights, on a GPU of 80.
  const Question q = question("llama-8b", 4096, 16);
  EXPECT_TRUE(search_layouts(q, {.gpus = 1, .offloads = false}, 10).best.empty());
  const SearchResult found = search_layouts(q, {.gpus = 1}, 10);
  ASSERT_FALSE(found.best.empty());
  EXPECT_EQ(found.too_large, found.possible);
  for (const Prediction& p : found.best) {
    EXPECT_TRUE(p.layout.offload) << p.layout.str();
    EXPECT_EQ(p.memory.optimizer, 0) << p.layout.str();
    EXPECT_LE(p.memory.total(), q.cluster.gpu.memory_bytes) << p.layout.str();
    Layout here = p.layout;
    here.offload = false;
    EXPECT_GT(p.step.optimizer, predict(q, here).step.optimizer) << p.layout.str();
  }
}

TEST(LayoutSearch, ActivationsGoToTheHostWhereTheSoftwareCan) {
  // Nothing is computed again: blocks keep more than the GPU has, and the states alone fit.
  Question q = question("llama-1b", 131072, 1);
  const SearchSpace space{.gpus = 1, .recomputations = {Recompute::kNone}};
  const SearchResult found = search_layouts(q, space, 1);
  ASSERT_FALSE(found.best.empty());
  EXPECT_TRUE(found.best.front().layout.offload_activations);
  q.software.offloads_activations = false;
  EXPECT_TRUE(search_layouts(q, space, 1).best.empty());
}

TEST(LayoutSearch, WhatFitsIsNotOffloaded) {
  for (const Prediction& p : search_layouts(question("llama-1b", 4096, 16), {.gpus = 4}, 10).best) {
    EXPECT_FALSE(p.layout.offload || p.layout.offload_activations) << p.layout.str();
  }
}

class RandomSearch : public ultra::test::RandomTest {};

TEST_F(RandomSearch, TheSimulatorTakesLessThanAFifthOffTheClosedForm) {
  // What lets the search rule layouts out by the closed form alone.
  constexpr double kLeastOfClosedForm = 0.8;
  for (const auto& [model, cluster, software] :
       {std::tuple{"llama-8b", "dgx-h100", "modern"},
        std::tuple{"llama-70b", "dgx-a100", "megatron-2022"},
        std::tuple{"mixtral-8x7b", "dgx-h100", "deepseek"}}) {
    Question q = question(model, 4096, 128);
    q.cluster = *replay::find_cluster(cluster);
    q.software = find_software(software);
    // Slower networks make messages longer than passes.
    q.cluster.inter.bandwidth /= random.pick({1.0, 8.0, 64.0});
    std::vector<Layout> piped;
    for_each_layout(q.work, {.gpus = random.pick({16U, 32U, 64U})}, [&](const Layout& layout) {
      if (layout.pp > 1) piped.push_back(layout);
    });
    for (int round = 0; round < 100; ++round) {
      const Layout& layout = piped[random.between(0, piped.size() - 1)];
      EXPECT_GE(predict(q, layout).step.total(),
                kLeastOfClosedForm * predict(q, layout, PipelineTime::kClosedForm).step.total())
          << model << " " << layout.str();
    }
  }
}

TEST(LayoutSearch, LongSequencesAreShared) {
  const SearchResult found = search_layouts(question("llama-70b", 131072, 64), {.gpus = 512}, 1);
  ASSERT_FALSE(found.best.empty());
  EXPECT_GT(found.best.front().layout.cp, 1U) << found.best.front().layout.str();
}

}  // namespace
}  // namespace ultra::planner
