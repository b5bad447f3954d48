#include "chapters/01_memory/memory.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "chapters/01_memory/gradient_accumulation.hpp"
#include "chapters/01_memory/memory_estimate.hpp"
#include "chapters/01_memory/model_presets.hpp"
#include "chapters/01_memory/written_parts.hpp"
#include "common/base/errors.hpp"
#include "common/base/numeric.hpp"
#include "common/optim/rules.hpp"
#include "common/train/options/flags.hpp"

namespace ultra::memory {

namespace {

/// In which formats a training keeps what its passes make.
NumberFormats formats_of_passes(const train::TrainOptions& options) {
  const DType type = options.formats().compute;
  return size_of(type) == 2 ? NumberFormats::kTwoBytes : precision_of(type);
}

}  // namespace

void Memory::add_flags(CLI::App& app, train::Setup&) {
  constexpr std::size_t kMostBlocks = 1'000'000;
  const train::Flags flags(app, "Memory");
  flags.add_parsed(
      "--recompute", [this](const std::string& text) { recompute_.mode = parse_recompute(text); },
      "activations to compute again: none, selective or full", "none");
  flags.add("--recompute-every", recompute_.recompute_every, "blocks per group of --recompute full",
            {1, kMostBlocks});
}

void Memory::validate(train::Setup&) { recompute_.validate(); }

train::ExtraConfig Memory::config(const train::Setup&) const {
  return {{"recompute", std::string(to_string(recompute_.mode))},
          {"recompute_every", recompute_.recompute_every}};
}

void Memory::wrap_layers(train::FactoryStack& factories, const train::Plan&,
                         const train::Setup&) const {
  wrap_written_parts(factories, recompute_);
}

void Memory::configure_step(train::StepConfig& step_config, const train::Setup& setup) const {
  step_config.share.offer([](std::size_t global_batch, const Communicator& replicas) {
    ensure(replicas.size() == 1, "replicas deal the batch out");
    return Range{0, global_batch};
  });
  step_config.cut.offer(cut_share);
  step_config.schedule.offer(accumulation_schedule);
  step_config.rule = written_rule(setup.train.optimizer);
}

void Memory::write_formulas(train::Formulas& formulas, const train::Setup& setup) const {
  const train::TrainOptions& train = setup.train;
  const TransformerShape shape = shape_of(train.model);
  const StateBytes per = bytes_per_parameter(NumberFormats::kFp32);
  const StateFactors factors = state_factors(train);
  const auto of_all = [&](std::size_t bytes, double factor) {
    return static_cast<std::size_t>(
        std::llround(factor * static_cast<double>(bytes * parameter_count(shape))));
  };
  const auto replicas = static_cast<std::size_t>(setup.replicas());
  const BatchShape batch{
      .size = std::min(train.micro_batch, ceil_div(train.global_batch, replicas)),
      .seq_len = train.model.max_seq_len,
      .head_chunks = train.model.head_chunks};
  train::Formula formula{.exercise = "01.1"};
  formula[MemoryCategory::kParameters] = of_all(per.parameters, factors.parameters);
  formula[MemoryCategory::kGradients] = of_all(per.gradients, factors.gradients);
  formula[MemoryCategory::kOptimizer] = of_all(per.optimizer, factors.optimizer);
  formula[MemoryCategory::kActivations] =
      peak_activation_bytes(shape, batch, formats_of_passes(train), recompute_);
  formulas.push_back(formula);
}

std::unique_ptr<train::Technique> technique() { return std::make_unique<Memory>(); }

namespace {

const Memory& memory_of(const train::Setup& setup) {
  const auto* memory = setup.find<Memory>();
  ensure(memory != nullptr, "a program without chapter 01");
  return *memory;
}

/// States of each weight, averaged over a model whose matrices have others than its tables and norms.
double states_per_weight(const train::TrainOptions& options) {
  using optim::WeightKind;
  const TransformerShape shape = shape_of(options.model);
  const auto all = static_cast<double>(parameter_count(shape));
  const std::size_t tables = shape.embeddings == Embeddings::kUntied ? 2 : 1;
  const auto others = static_cast<double>(shape.hidden_size *
                                          (tables * shape.vocab_size + 2 * shape.num_layers + 1));
  const auto of = [&](WeightKind kind) {
    return static_cast<double>(optim::states_per_weight(options.optimizer, kind));
  };
  return (of(WeightKind::kOther) * others + of(WeightKind::kMatrix) * (all - others)) / all;
}

}  // namespace

StateFactors state_factors(const train::TrainOptions& options) {
  const auto in_f32 = [](DType type) {
    return static_cast<double>(size_of(type)) / size_of(DType::kF32);
  };
  const nn::Precision types = options.formats();
  const double moments = states_per_weight(options);
  const double masters = types.has_master_weights() ? in_f32(types.optimizer) : 0;
  return {.parameters = in_f32(types.parameters),
          .gradients = in_f32(types.gradients),
          .optimizer = (moments * in_f32(options.dtype) + masters) / 2};
}

const RecomputeConfig& recompute_of(const train::Setup& setup) {
  return memory_of(setup).recompute();
}

}  // namespace ultra::memory
