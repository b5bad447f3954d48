#include <fmt/format.h>

#include "chapters/03_data_parallel/data_parallel.hpp"

#include "chapters/03_data_parallel/batch_shares.hpp"
#include "chapters/03_data_parallel/gradient_completion.hpp"
#include "chapters/03_data_parallel/replica_check.hpp"
#include "common/base/errors.hpp"
#include "common/base/units.hpp"

namespace ultra::data_parallel {

void DataParallel::add_flags(CLI::App& app, train::Setup&) { options_.add_to(app); }

void DataParallel::validate(train::Setup& setup) {
  options_.validate(setup.train.optimizer);
  setup.unequal_shares = true;
}

void DataParallel::check_ranks(train::Setup& setup) { options_.resolve_ranks(setup); }

void DataParallel::validate_training(const train::Setup& setup) const {
  expect_work_for_all(setup.train.global_batch, setup.replicas());
}

std::vector<train::Conflict> DataParallel::conflicts_with_recording(const train::Setup&) const {
  return {train::not_recorded("--compress", "what it sends depends on the numbers of gradients.",
                              options_.compress != "none"),
          train::not_recorded("--check-replicas", "there are no weights to compare.",
                              options_.check_replicas > 0)};
}

train::ExtraConfig DataParallel::config(const train::Setup& setup) const {
  return train::joined({{{"dp", static_cast<std::size_t>(setup.replicas())}}, options_.config()});
}

void DataParallel::name_algorithms(train::AlgorithmNames& names) const {
  names[OpKind::kAllReduce] = options_.all_reduce;
}

void DataParallel::configure_step(train::StepConfig& step_config, const train::Setup&) const {
  step_config.share.offer(share_of_batch);
  step_config.cut.offer(cut_share);
  step_config.completes.offer(completing_action);
  step_config.exchange.offer(
      [this](const train::StatesScope& scope) { return options_.make_exchange(scope); });
  step_config.rule = options_.rule(step_config.rule);
  if (options_.check_replicas == 0) return;
  step_config.observers.emplace_back(
      [every = options_.check_replicas](const train::ModelScope& scope) {
        return check_replicas(scope, every);
      });
}

std::vector<train::UnsavedState> DataParallel::states_that_are_not_saved() const {
  return {{.flag = "--compress",
           .reason = "what the compression has left over would not be saved. Leave out "
                     "--checkpoint and --resume, or --compress.",
           .kept = options_.compress != "none"}};
}

std::string DataParallel::table(const train::Setup&, const train::TrainResult& result) const {
  return format_communication_table(result);
}

std::unique_ptr<train::Technique> technique() { return std::make_unique<DataParallel>(); }

const DataParallelOptions& options_of(const train::Setup& setup) {
  const auto* data_parallel = setup.find<DataParallel>();
  ensure(data_parallel != nullptr, "a program without chapter 03");
  return data_parallel->options();
}

std::string format_communication_table(const train::TrainResult& result) {
  std::string text = fmt::format("\n{:>4}  {:>12}  {:>10}  {:>15}  {:>10}  {:>8}\n", "rank", "sent",
                                 "compute s", "communication s", "exposed s", "hidden");
  for (const train::RankSummary& rank : result.ranks) {
    const CommStats& traffic = rank.communication;
    const double hidden = traffic.busy_seconds - traffic.exposed_seconds;
    const std::string share = traffic.busy_seconds > 0
                                  ? fmt::format("{:.0f}%", 100 * hidden / traffic.busy_seconds)
                                  : std::string("-");
    text += fmt::format("{:>4}  {:>12}  {:>10.2f}  {:>15.2f}  {:>10.2f}  {:>8}\n", rank.rank,
                        format_bytes(traffic.sent_bytes()), rank.seconds.compute,
                        traffic.busy_seconds, traffic.exposed_seconds, share);
  }
  return text;
}

}  // namespace ultra::data_parallel
