#pragma once
/// @file
/// Random trainings with experts on meshes dp x pp x cp x tp, ep across.

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "chapters/08_expert_parallel/expert_parallel.hpp"
#include "tests/chapters/07_pipeline_parallel/pipeline_run.hpp"

namespace ultra::expert_parallel::test {

using namespace ultra::test;

using ultra::test::Axes;
using ultra::test::MeshCase;
using ultra::test::RankRun;

/// @brief The techniques of the chapter's program.
inline train::Techniques techniques() {
  train::Techniques list = pipeline_parallel::test::techniques();
  list.push_back(technique());
  return list;
}

/// @brief Random small runs with experts, which flags of the model describe.
class ExpertTest : public ultra::test::MeshTest {
 protected:
  /// A router of every kind, whose experts ep ranks of tp can hold.
  std::string draw_moe(const Axes& axes) {
    const std::size_t experts = axes.ep * random.between(1, 3);
    std::string moe =
        fmt::format("--experts {} --top-k {} --expert-ffn {} --router {}", experts,
                    random.between(1, std::min<std::size_t>(experts, 4)),
                    axes.tp * random.between(1, 4), random.pick({"softmax", "sigmoid"}));
    moe += random.pick({"", " --shared-experts 1", " --shared-experts 2"});
    moe += random.pick(
        {" --balance aux --aux-loss 0.5", " --balance bias --bias-rate 0.05", " --balance none"});
    moe += random.pick({"", "", " --z-loss 0.1"});
    return moe + random.pick({"", "", " --capacity-factor 0.8", " --capacity-factor 1.3"});
  }

  MeshCase draw(const Axes& axes, DType dtype) {
    const bool sequence_parallel = axes.tp > 1 && random.pick({true, false});
    MeshCase c = MeshTest::draw(
        axes, dtype, {.most_layers = 2, .sequence_multiple = sequence_parallel ? axes.tp : 1});
    c.techniques = techniques;
    c.model = draw_moe(axes);
    if (sequence_parallel) c.layout = "--sp on";
    return c;
  }

  /// A tiny model, always the same.
  static MeshCase fixed(const Axes& axes, std::size_t micro_batch) {
    return {.axes = axes,
            .micro_batch = micro_batch,
            .options = ultra::test::short_run(),
            .techniques = techniques};
  }
};

}  // namespace ultra::expert_parallel::test
