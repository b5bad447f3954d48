#include "chapters/04_zero/zero.hpp"

#include "chapters/01_memory/memory.hpp"
#include "chapters/03_data_parallel/data_parallel.hpp"
#include "chapters/04_zero/estimate/zero_estimate.hpp"
#include "chapters/04_zero/estimate/zero_memory_table.hpp"
#include "chapters/04_zero/offload/storage_trace.hpp"
#include "common/base/errors.hpp"
#include "common/base/numeric.hpp"
#include "common/train/run/agree.hpp"

namespace ultra::zero {
namespace {

/// Where the moments, and weights, of a program's ranks are.
class Offloading : public train::Technique {
 public:
  void add_flags(CLI::App& app, train::Setup&) override { options_.add_to(app); }

  void validate(train::Setup& setup) override {
    options_.validate(zero_of(setup).options().stage);
    train::reject_conflicts(conflicts(setup));
  }

  std::vector<train::Conflict> conflicts(const train::Setup& setup) const override {
    const ZeroOptions& zero = zero_of(setup).options();
    return options_.conflicts(zero.stage, zero.plus_plus.techniques);
  }

  std::vector<train::Conflict> conflicts_with_recording(const train::Setup&) const override {
    return {train::not_recorded("--offload",
                                "what storage takes is measured, not recorded: leave it out.",
                                settings().what != Offload::kNone)};
  }

  train::ExtraConfig config(const train::Setup&) const override { return options_.config(); }

  std::vector<train::FileFlag> files() const override {
    const std::string folder = settings().folder;
    if (folder.empty()) return {};
    return {{"--offload-to", folder, train::FileUse::kScratch}};
  }

  [[nodiscard]] OffloadSettings settings() const { return options_.settings(); }

 private:
  OffloadOptions options_;
};

}  // namespace

void Zero::add_flags(CLI::App& app, train::Setup&) { options_.add_to(app); }

void Zero::validate(train::Setup& setup) { options_.validate(data_parallel::options_of(setup)); }

std::vector<train::Conflict> Zero::conflicts(const train::Setup& setup) const {
  return options_.conflicts(data_parallel::options_of(setup));
}

std::vector<train::Conflict> Zero::conflicts_with_recording(const train::Setup&) const {
  return {train::not_recorded("--zero++",
                              "its blocks of int8 are made of numbers, which nothing has here.",
                              !options_.plus_plus.techniques.empty())};
}

void Zero::check_ranks(train::Setup& setup) { options_.expect_nodes_of(setup.data_ranks()); }

train::ExtraConfig Zero::config(const train::Setup& setup) const {
  return options_.config(data_parallel::options_of(setup));
}

std::optional<std::string> Zero::estimate(const train::Setup& setup) const {
  const auto asked = data_parallel::options_of(setup).dp;
  const auto ranks = checked_cast<int>(asked.value_or(setup.comm.ranks.value_or(8)));
  return zero::answer(memory::options_of(setup), setup.train, ranks, options_.node_size);
}

void Zero::name_algorithms(train::AlgorithmNames& names) const {
  names[OpKind::kReduceScatter] = options_.reduce_scatter;
}

ZeroSettings Zero::settings(const train::Setup& setup) const {
  ZeroSettings settings =
      options_.settings(data_parallel::options_of(setup), setup.train.formats().gradients);
  if (const auto* offloading = setup.find<Offloading>()) settings.offload = offloading->settings();
  const memory::RecomputeConfig& recompute = memory::options_of(setup).recompute;
  if (recompute.mode == memory::Recompute::kFull) {
    settings.recompute_every = recompute.recompute_every;
  }
  return settings;
}

ShardedRun Zero::sharded_run(const train::Setup& setup) const {
  const auto replicas = static_cast<std::size_t>(setup.replicas());
  const std::size_t share = ceil_div(setup.train.global_batch, replicas);
  const Sharding sharding = options_.sharding(setup.data_ranks());
  const memory::StateWidths of_setup = memory::formats_of(setup).states;
  std::optional<memory::StateWidths> widths;
  if (of_setup != memory::all_in(setup.train.dtype).states) widths = of_setup;
  return {.model = setup.train.model,
          .dtype = setup.train.formats().gradients,
          .settings = settings(setup),
          .shards = sharding.shards,
          .replicas = sharding.replicas,
          .micro_batches = ceil_div(share, setup.train.micro_batch),
          .widths = widths};
}

// [region join]
void Zero::configure_step(train::StepConfig& step_config, const train::Setup& setup) const {
  if (!options_.shards()) return;
  step_config.values = nn::Values::kDeferred;
  step_config.states.claim("--zero", sharded_states(settings(setup), options_.node_size));
}

train::MakeStates sharded_states(const ZeroSettings& settings,
                                 std::optional<std::size_t> node_size) {
  return [=](const train::StatesScope& scope) -> std::unique_ptr<train::ModelStates> {
    const ShardedScope sharded{.chunks = scope.chunks,
                               .parameters = scope.parameters,
                               .data_group = scope.data_group,
                               .schedule = scope.plan.schedule,
                               .optimizer = scope.optimizer,
                               .precision = scope.context.options.formats()};
    const ShardGroups ranks = make_shard_groups(scope.data, node_size);
    std::unique_ptr<ShardedModel> made;
    const auto make = [&] { made = shard_model(sharded, ranks, settings); };
    if (settings.offload.what == Offload::kNone) {
      make();
    } else {
      train::agree(scope.context.world, make);
    }
    if (const auto& offloaded = made->offloaded()) {
      show_storage_on(*offloaded, scope.context.timeline);
    }
    return made;
  };
}
// [/region]

std::optional<std::string> Zero::memory_table(const train::Setup& setup,
                                              const train::TrainResult& result) const {
  if (!options_.shards()) return {};
  return format_zero_memory_table(setup.train, memory::formats_of(setup),
                                  memory::options_of(setup).recompute, sharded_run(setup),
                                  *options_.algorithms(data_parallel::options_of(setup)), result);
}

std::unique_ptr<train::Technique> technique() { return std::make_unique<Zero>(); }

std::unique_ptr<train::Technique> offload() { return std::make_unique<Offloading>(); }

const Zero& zero_of(const train::Setup& setup) {
  const auto* zero = setup.find<Zero>();
  ensure(zero != nullptr, "a program without chapter 04");
  return *zero;
}

}  // namespace ultra::zero
