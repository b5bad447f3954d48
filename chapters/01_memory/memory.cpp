#include "chapters/01_memory/memory.hpp"

#include <utility>

#include "chapters/01_memory/estimate/memory_table.hpp"
#include "chapters/01_memory/gradient_accumulation.hpp"
#include "chapters/01_memory/written_parts.hpp"
#include "common/base/errors.hpp"

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

void Memory::wrap(train::FactoryStack& factories, const train::Plan&, const train::Setup&) const {
  wrap_written_parts(factories, options_.recompute);
}

void Memory::join(train::Ingredients& ingredients, const train::Setup&) const {
  ingredients.share.offer([](std::size_t global_batch, const Communicator& replicas) {
    ensure(replicas.size() == 1, "replicas deal the batch out");
    return Range{0, global_batch};
  });
  ingredients.cut.offer(cut_share);
  ingredients.schedule.offer(accumulation_schedule);
  ingredients.adamw = written_adamw;
}

std::optional<std::string> Memory::memory_table(const train::Setup& setup,
                                                const train::TrainResult& result) const {
  return format_memory_table(setup.train, formats(setup.train.dtype), options_.recompute, result);
}

std::unique_ptr<train::Technique> technique() { return std::make_unique<Memory>(); }

namespace {

const Memory& memory_of(const train::Setup& setup) {
  const auto* memory = setup.find<Memory>();
  ensure(memory != nullptr, "a program without chapter 01");
  return *memory;
}

}  // namespace

const MemoryOptions& options_of(const train::Setup& setup) { return memory_of(setup).options(); }

StoredFormats formats_of(const train::Setup& setup) {
  return memory_of(setup).formats(setup.train.dtype);
}

}  // namespace ultra::memory
