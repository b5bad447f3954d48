#include "chapters/07_pipeline_parallel/execution/weight_stash.hpp"

#include <set>

namespace ultra::pipeline_parallel {

using train::Action;
using train::ActionKind;

WeightStash::WeightStash(nn::Model& chunk, std::shared_ptr<train::RankCounters> counters)
    : chunk_(chunk), counters_(std::move(counters)) {
  std::vector<Tensor> values;
  for (const nn::Parameter* parameter : chunk_.parameters()) values.push_back(parameter->value());
  newest_ = std::make_shared<const std::vector<Tensor>>(std::move(values));
  count_versions();
}

// [region weight_stash]
void WeightStash::action_begins(const Action& action) {
  if (action.kind == ActionKind::kForward) read_[action.micro_batch] = newest_;
  if (action.kind == ActionKind::kBackward) load(read_.at(action.micro_batch));
  if (action.kind == ActionKind::kUpdate) keep_newest();
}

void WeightStash::action_ends(const Action& action) {
  if (action.kind != ActionKind::kBackward) return;
  load(newest_);
  read_.erase(action.micro_batch);
}

/// An update writes in place: into a copy, when a micro-batch under way has read these weights.
void WeightStash::keep_newest() {
  if (newest_.use_count() == 1) return;
  std::vector<Tensor> copies;
  for (const Tensor& value : *newest_) {
    copies.push_back(value.clone());
    copies.back().set_category(MemoryCategory::kParameters);
  }
  newest_ = std::make_shared<const std::vector<Tensor>>(std::move(copies));
  load(newest_);
  count_versions();
}
// [/region]

void WeightStash::load(const Version& version) {
  for (std::size_t i = 0; i < version->size(); ++i)
    chunk_.parameters()[i]->set_value((*version)[i]);
}

void WeightStash::count_versions() {
  std::set<const void*> versions = {newest_.get()};
  for (const auto& [micro_batch, version] : read_) versions.insert(version.get());
  if (versions.size() <= peak_) return;
  counters_->add(kPeakWeightVersions, static_cast<double>(versions.size() - peak_));
  peak_ = versions.size();
}

}  // namespace ultra::pipeline_parallel
