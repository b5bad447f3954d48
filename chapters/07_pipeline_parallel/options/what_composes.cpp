#include "chapters/07_pipeline_parallel/options/what_composes.hpp"

#include <fmt/format.h>

#include <utility>

#include "chapters/03_data_parallel/data_parallel.hpp"
#include "chapters/04_zero/zero.hpp"

namespace ultra::pipeline_parallel {
namespace {

/// Collects what one kind of schedule excludes.
class Exclusions {
 public:
  /// @param applies  whether the schedule is of that kind.
  /// @param general  one of them, where it is not.
  Exclusions(bool applies, const std::string& name, const char* general)
      : applies_(applies), schedule_("--schedule " + (applies ? name : std::string(general))) {}

  void add(bool given, const std::string& flag, const std::string& reason) {
    all_.push_back(
        {.first = flag, .second = schedule_, .reason = reason, .broken = applies_ && given});
  }
  std::vector<train::Exclusion> take() { return std::move(all_); }

 private:
  bool applies_;
  std::string schedule_;
  std::vector<train::Exclusion> all_;
};

std::string with_number(const char* flag, bool given, std::size_t number) {
  return given ? fmt::format("{} {}", flag, number) : flag;
}

/// Both ends of the model on one rank are two tables on it, whose gradients nobody adds up.
bool joins_ends(const Placement& placement) {
  return placement.parts() > 1 &&
         placement.at(0).stage == placement.at(placement.parts() - 1).stage;
}

std::string both_ends_on(const PipelineSchedule* schedule) {
  if (schedule && schedule->stages() == 1) {
    return fmt::format(
        "the one rank has both ends of the model, in {} parts. Choose a schedule of one part per "
        "rank, or another model.",
        schedule->placement.parts());
  }
  return "the first rank has both ends of the model, in two parts. Choose a schedule without a V, "
         "or another model.";
}

/// Updates of a stage between its passes: nobody else takes part in them.
void exclude_company(Exclusions& lone, const PipelineSchedule* schedule,
                     const train::Setup& setup) {
  const char* alone =
      "each stage updates its weights on its own, many times in a step. Leave one of the two out.";
  const auto replicas = static_cast<std::size_t>(schedule ? setup.replicas() : 1);
  lone.add(replicas > 1, with_number("--dp", replicas > 1, replicas), alone);
  for (const auto& [dim, flag] : {std::pair{MeshDim::kCp, "--cp"}, {MeshDim::kTp, "--tp"}}) {
    const std::size_t ranks = setup.ranks_along(dim);
    lone.add(ranks > 1, with_number(flag, ranks > 1, ranks), alone);
  }
  const zero::ZeroOptions& zero = zero::zero_of(setup).options();
  lone.add(
      zero.shards(),
      zero.shards() ? fmt::format("--zero {}", zero::number_of(zero.stage)) : "--zero 1, 2 or 3",
      alone);
  lone.add(data_parallel::options_of(setup).compress != "none", "--compress", alone);
  lone.add(setup.train.clip_norm > 0, fmt::format("--clip {}", setup.train.clip_norm),
           "no stage waits until all know the norm of the whole gradient. Give --clip 0.");
  lone.add(schedule && schedule->placement.chunks() > 1, "several parts on a rank",
           "one update is one of all that a rank has. Write a schedule with one chunk per rank.");
  lone.add(setup.train.model.tied_embeddings, "a tied token table",
           "its two ends make their updates at different times. Choose another schedule.");
}

}  // namespace

std::vector<train::Exclusion> schedule_exclusions(const std::string& name,
                                                  const PipelineSchedule* schedule,
                                                  const train::Setup& setup) {
  Exclusions joined(schedule && joins_ends(schedule->placement), name, "zb-v or dualpipe-v");
  joined.add(setup.train.model.tied_embeddings, "a tied token table", both_ends_on(schedule));
  Exclusions lone(schedule && train::updates_between(schedule->ranks.front()), name,
                  "pipedream-async");
  exclude_company(lone, schedule, setup);
  std::vector<train::Exclusion> all = joined.take();
  for (train::Exclusion& exclusion : lone.take()) all.push_back(std::move(exclusion));
  return all;
}

}  // namespace ultra::pipeline_parallel
