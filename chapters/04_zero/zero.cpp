#include "chapters/04_zero/zero.hpp"

#include <cmath>

#include "chapters/01_memory/memory.hpp"
#include "chapters/01_memory/model_presets.hpp"
#include "chapters/03_data_parallel/data_parallel.hpp"
#include "chapters/04_zero/offload/offloaded_states.hpp"
#include "common/base/errors.hpp"
#include "common/base/numeric.hpp"
#include "common/base/units.hpp"
#include "common/optim/rules.hpp"
#include "common/storage/storage.hpp"
#include "common/train/run/agree.hpp"

namespace ultra::zero {
namespace {

std::string traffic_line(std::string_view name, const train::StorageTraffic& traffic) {
  const double moved = traffic.read_seconds + traffic.write_seconds;
  if (moved <= 0) return "";
  return fmt::format(
      "  {:<10}read {} in {:.3f} s, wrote {} in {:.3f} s; waited {:.3f} s, {:.0f}%\n", name,
      format_bytes(traffic.read_bytes), traffic.read_seconds, format_bytes(traffic.written_bytes),
      traffic.write_seconds, traffic.exposed_seconds, 100.0 * traffic.exposed_seconds / moved);
}

/// What a rank keeps beside its device, and what moved.
std::string format_storage(const OffloadSettings& settings, const train::OffloadUse& use) {
  const std::string where =
      settings.folder.empty() ? "in the host's memory"
                              : fmt::format("in a file, by {}", to_string(storage::file_backend()));
  return fmt::format("\n  Rank 0 has {} {}.\n{}{}", format_bytes(use.stored_bytes), where,
                     traffic_line("optimizer", use.optimizer),
                     traffic_line("weights", use.weights));
}

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
    std::vector<train::Conflict> all = options_.conflicts(zero.stage, zero.plus_plus.techniques);
    all.push_back({.first = "--offload optimizer+params",
                   .second = "--shards rows",
                   .reason = "storage has a shard in one piece, without padding inside. Use "
                             "--offload optimizer, or leave out --shards.",
                   .broken = settings().what == Offload::kOptimizerAndParameters &&
                             zero.cut == ShardCut::kRows});
    all.push_back({.first = "--offload optimizer+params",
                   .second = "--freeze",
                   .reason = "storage has weights beside the optimizer's states, which frozen ones "
                             "do not have. Use --offload optimizer, or leave out --freeze.",
                   .broken = settings().what == Offload::kOptimizerAndParameters &&
                             !setup.train.freeze.empty()});
    return all;
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

  std::string table(const train::Setup&, const train::TrainResult& result) const override {
    return settings().what == Offload::kNone
               ? ""
               : format_storage(settings(), result.ranks.front().offload);
  }

  [[nodiscard]] OffloadSettings settings() const { return options_.settings(); }

 private:
  OffloadOptions options_;
};

}  // namespace

void Zero::add_flags(CLI::App& app, train::Setup&) { options_.add_to(app); }

void Zero::validate(train::Setup& setup) {
  options_.validate(data_parallel::options_of(setup));
  if (options_.muon_batch && !optim::needs_whole_matrices(setup.train.optimizer)) {
    throw ConfigError(fmt::format(
        "--muon-batch has no meaning without --optimizer muon: {} needs no whole matrices.",
        setup.train.optimizer));
  }
}

std::vector<train::Conflict> Zero::conflicts(const train::Setup& setup) const {
  return options_.conflicts(data_parallel::options_of(setup));
}

std::vector<train::Conflict> Zero::conflicts_with_recording(const train::Setup&) const {
  return {train::not_recorded("--zero++",
                              "its blocks of int8 are made of numbers, which nothing has here.",
                              !options_.plus_plus.techniques.empty())};
}

void Zero::validate_training(const train::Setup& setup) const {
  options_.expect_narrower(setup.train.formats().parameters);
}

void Zero::check_ranks(train::Setup& setup) { options_.expect_nodes_of(setup.data_ranks()); }

train::ExtraConfig Zero::config(const train::Setup& setup) const {
  return options_.config(data_parallel::options_of(setup));
}

void Zero::name_algorithms(train::AlgorithmNames& names) const {
  names[OpKind::kReduceScatter] = options_.reduce_scatter;
}

ZeroSettings Zero::settings(const train::Setup& setup) const {
  ZeroSettings settings =
      options_.settings(data_parallel::options_of(setup), setup.train.formats().gradients);
  if (const auto* offloading = setup.find<Offloading>()) settings.offload = offloading->settings();
  const memory::RecomputeConfig& recompute = memory::recompute_of(setup);
  if (recompute.mode == memory::Recompute::kFull) {
    settings.recompute_every = recompute.recompute_every;
  }
  return settings;
}

// [region join]
void Zero::configure_step(train::StepConfig& step_config, const train::Setup& setup) const {
  if (!options_.shards()) return;
  step_config.values = nn::Values::kDeferred;
  step_config.states.claim("--zero", sharded_states(settings(setup), options_.node_size,
                                                    options_.muon_batch.value_or(0)));
}

train::MakeStates sharded_states(const ZeroSettings& settings, std::optional<std::size_t> node_size,
                                 std::size_t matrices_at_once) {
  return [=](const train::StatesScope& scope) -> std::unique_ptr<train::ModelStates> {
    const ShardedScope sharded{.chunks = scope.chunks,
                               .parameters = scope.parameters,
                               .data_group = scope.data_group,
                               .schedule = scope.plan.schedule,
                               .optimizer = scope.optimizer,
                               .precision = scope.context.options.formats(),
                               .matrices_at_once = matrices_at_once};
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

void Zero::write_formulas(train::Formulas& formulas, const train::Setup& setup) const {
  if (!options_.shards()) return;
  const RankBytes of_fp32 = bytes_per_rank(
      options_.sharding(setup.data_ranks()),
      memory::parameter_count(memory::shape_of(setup.train.model)), memory::NumberFormats::kFp32);
  const memory::StateFactors factors = memory::state_factors(setup.train);
  const auto whole = [](double bytes) { return static_cast<std::size_t>(std::llround(bytes)); };
  train::Formula formula{.exercise = "04.6"};
  // What secondary shards add, and what is outside the device, are not in it.
  const OffloadSettings offload = settings(setup).offload;
  if (options_.plus_plus.techniques.empty() && !offload.offloads_parameters()) {
    formula[MemoryCategory::kParameters] = whole(factors.parameters * of_fp32.parameters);
  }
  formula[MemoryCategory::kGradients] = whole(factors.gradients * of_fp32.gradients);
  // Flat shards do not deal out matrices evenly, nor states of which tables have others.
  const bool alike = !optim::needs_whole_matrices(setup.train.optimizer);
  if (offload.what == Offload::kNone && alike) {
    formula[MemoryCategory::kOptimizer] = whole(factors.optimizer * of_fp32.optimizer);
  }
  for (train::Formula& before : formulas) {
    for (const MemoryCategory category :
         {MemoryCategory::kParameters, MemoryCategory::kGradients, MemoryCategory::kOptimizer}) {
      before[category].reset();
    }
  }
  formulas.push_back(formula);
}

std::unique_ptr<train::Technique> technique() { return std::make_unique<Zero>(); }

std::unique_ptr<train::Technique> offload() { return std::make_unique<Offloading>(); }

const Zero& zero_of(const train::Setup& setup) {
  const auto* zero = setup.find<Zero>();
  ensure(zero != nullptr, "a program without chapter 04");
  return *zero;
}

}  // namespace ultra::zero
