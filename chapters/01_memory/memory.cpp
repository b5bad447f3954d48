#include "chapters/01_memory/memory.hpp"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <utility>

#include "chapters/01_memory/estimate/model_presets.hpp"
#include "chapters/01_memory/gradient_accumulation.hpp"
#include "chapters/01_memory/memory_estimate.hpp"
#include "chapters/01_memory/written_parts.hpp"
#include "common/base/difference.hpp"
#include "common/base/errors.hpp"
#include "common/base/units.hpp"
#include "common/optim/rules.hpp"

namespace ultra::memory {

void Memory::add_flags(CLI::App& app, train::Setup&) { options_.add_to(app); }

void Memory::validate(train::Setup&) { options_.validate(); }

train::ExtraConfig Memory::config(const train::Setup&) const { return options_.config(); }

std::vector<train::Question> Memory::questions() const {
  if (!options_.estimates()) return {};
  return {{"--estimate", train::Instead::kEstimate}};
}

std::optional<std::string> Memory::estimate(const train::Setup& setup) const {
  return options_.answer(setup.train);
}

void Memory::wrap_layers(train::FactoryStack& factories, const train::Plan&,
                         const train::Setup&) const {
  wrap_written_parts(factories, options_.recompute);
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

std::optional<std::string> Memory::memory_table(const train::Setup& setup,
                                                const train::TrainResult& result) const {
  return format_memory_table(setup.train, formats_of(setup), options_.recompute, result);
}

std::unique_ptr<train::Technique> technique() { return std::make_unique<Memory>(); }

namespace {

const Memory& memory_of(const train::Setup& setup) {
  const auto* memory = setup.find<Memory>();
  ensure(memory != nullptr, "a program without chapter 01");
  return *memory;
}

/// Closed form of a category; none for communication and for what operations borrow for a moment.
std::optional<std::size_t> predict(MemoryCategory category, const train::TrainOptions& options,
                                   const StoredFormats& formats, const RecomputeConfig& recompute) {
  const TransformerShape shape = shape_of(options.model);
  const std::size_t history = shape.num_layers * formats.block_history();
  const auto all = [&](double bytes, std::size_t of_history) {
    return of_history * history + static_cast<std::size_t>(std::llround(
                                      bytes * static_cast<double>(parameter_count(shape))));
  };
  const BatchShape batch{.size = options.micro_batch, .seq_len = options.model.max_seq_len};
  switch (category) {
    case MemoryCategory::kParameters:
      return all(formats.states.parameters, sizeof(float));
    case MemoryCategory::kGradients:
      return all(formats.states.gradients, sizeof(float));
    case MemoryCategory::kOptimizer:
      return all(formats.states.optimizer(), formats.states.states * sizeof(float));
    case MemoryCategory::kActivations:
      return peak_activation_bytes(shape, batch, formats.activations, recompute);
    case MemoryCategory::kCommunication:
    case MemoryCategory::kOther:
      break;
  }
  return std::nullopt;
}

}  // namespace

const MemoryOptions& options_of(const train::Setup& setup) { return memory_of(setup).options(); }

StoredFormats formats_of(const train::Setup& setup) {
  StoredFormats formats = memory_of(setup).formats(setup.train.dtype);
  formats.states.states = optim::states_per_weight(setup.train.optimizer);
  return formats;
}

std::string format_memory_table(const train::TrainOptions& options, const StoredFormats& formats,
                                const RecomputeConfig& recompute,
                                const train::TrainResult& result) {
  const train::RankSummary& rank = result.ranks.front();
  std::string table = fmt::format(
      "\nWhere the memory went ({} parameters, micro-batch {} x {} "
      "tokens, recompute {})\n\n",
      format_count(result.parameters), options.micro_batch, options.model.max_seq_len,
      to_string(recompute.mode));
  const MemoryUsage& usage = rank.memory.usage_at_peak();
  const MemoryPeak& total = rank.memory.peak_total();
  table += fmt::format("  {:<14}{:>12}{:>12}{:>10}{:>12}   {}\n", "", "predicted", "measured", "",
                       "at the peak", "at its highest in");
  for (const MemoryCategory category : kMemoryCategories) {
    const MemoryPeak& peak = rank.memory.peak(category);
    const auto predicted = predict(category, options, formats, recompute);
    if (!predicted && peak.bytes == 0) continue;
    table += fmt::format("  {:<14}{:>12}{:>12}{:>10}{:>12}   {}\n", to_string(category),
                         predicted ? format_bytes(*predicted) : "-", format_bytes(peak.bytes),
                         predicted ? format_difference(peak.bytes, *predicted) : "",
                         format_bytes(usage[category]), peak.phase);
  }
  table += fmt::format("  {:<14}{:>12}{:>12}{:>10}{:>12}   {}\n", "total", "", "", "",
                       format_bytes(total.bytes), total.phase);
  table += fmt::format("\n  The pool holds {} from the system, taken in {} requests.\n",
                       format_bytes(rank.reserved_bytes), rank.system_allocations);
  table += "  other: the inputs, the rotary table, and what operations borrow for a moment.\n";
  return table;
}

}  // namespace ultra::memory
