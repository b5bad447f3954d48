#include "chapters/07_pipeline_parallel/options/what_composes.hpp"

#include <fmt/format.h>

#include <string>

#include "chapters/03_data_parallel/data_parallel.hpp"
#include "chapters/04_zero/zero.hpp"
#include "common/base/errors.hpp"

namespace ultra::pipeline_parallel {
namespace {

void refuse(bool given, const std::string& flag, const std::string& schedule, const char* why) {
  if (!given) return;
  throw ConfigError(
      fmt::format("{} does not go together with --schedule {}: {}", flag, schedule, why));
}

/// Both ends of the model on one rank are two tables on it, whose gradients nobody adds up.
void expect_untied_ends(const std::string& name, const Placement& placement,
                        const train::Setup& setup) {
  const bool one_rank =
      placement.parts() > 1 && placement.at(0).stage == placement.at(placement.parts() - 1).stage;
  refuse(setup.train.model.tied_embeddings && one_rank, "a tied token table", name,
         "the first rank has both ends of the model, in two parts. Choose a schedule without a V, "
         "or another model.");
}

/// Updates of a stage between its passes: nobody else takes part in them.
void expect_lone_stages(const std::string& name, const PipelineSchedule& schedule,
                        const train::Setup& setup) {
  const char* alone =
      "each stage updates its weights on its own, many times in a step. Leave one of the two out.";
  refuse(setup.replicas() > 1, fmt::format("--dp {}", setup.replicas()), name, alone);
  for (const auto& [dim, flag] : {std::pair{MeshDim::kCp, "--cp"}, {MeshDim::kTp, "--tp"}}) {
    const std::size_t ranks = setup.ranks_along(dim);
    refuse(ranks > 1, fmt::format("{} {}", flag, ranks), name, alone);
  }
  const zero::ZeroOptions& zero = zero::zero_of(setup).options();
  refuse(zero.shards(), fmt::format("--zero {}", zero::number_of(zero.stage)), name, alone);
  refuse(data_parallel::options_of(setup).compress != "none", "--compress", name, alone);
  refuse(setup.train.clip_norm > 0, fmt::format("--clip {}", setup.train.clip_norm), name,
         "no stage waits until all know the norm of the whole gradient. Give --clip 0.");
  refuse(schedule.placement.chunks() > 1, "several parts on a rank", name,
         "one update is one of all that a rank has. Write a schedule with one chunk per rank.");
  refuse(setup.train.model.tied_embeddings, "a tied token table", name,
         "its two ends make their updates at different times. Choose another schedule.");
}

}  // namespace

void expect_composes(const std::string& name, const PipelineSchedule& schedule,
                     const train::Setup& setup) {
  expect_untied_ends(name, schedule.placement, setup);
  if (train::updates_between(schedule.ranks.front())) expect_lone_stages(name, schedule, setup);
}

}  // namespace ultra::pipeline_parallel
