/// 01_memory: trains on one rank and accounts for every byte; or estimates a model's memory.

#include <fmt/format.h>

#include <string>

#include "chapters/01_memory/estimate/memory_table.hpp"
#include "chapters/01_memory/gradient_accumulation.hpp"
#include "chapters/01_memory/memory_options.hpp"
#include "chapters/01_memory/written_parts.hpp"
#include "common/train/options/options.hpp"
#include "common/train/program.hpp"
#include "common/train/trainer.hpp"

namespace {

using namespace ultra;

void train_and_explain(const memory::MemoryOptions& memory, const train::TrainOptions& options,
                       nn::LayerFactory& factory) {
  const train::TrainResult result = train::train(
      options, {.factory = factory,
                .forward_backward =
                    [&](nn::Model& model, const data::Sampler& sampler, std::size_t step) {
                      return memory::accumulate_gradients(model, sampler, step,
                                                          options.micro_batch);
                    },
                .update = train::clipped_adamw(options, memory::written_adamw),
                .extra_config = memory.config()});
  fmt::print("{}", memory::format_memory_table(options, memory.recompute, result));
}

}  // namespace

int main(int argc, char** argv) {
  train::TrainOptions options;
  memory::MemoryOptions memory;
  const auto body = [&] {
    memory.validate();
    if (memory.estimates()) return fmt::print("{}", memory.answer(options));
    options.validate();
    if (options.print_ranks) return fmt::print("1\n");
    memory::with_written_parts(memory.recompute, [&](nn::LayerFactory& factory) {
      train_and_explain(memory, options, factory);
    });
  };
  return train::run_program(
      {.name = "01_memory",
       .description = "Trains a small Llama-style model on one rank and accounts for every byte.",
       .add_flags =
           [&](CLI::App& app) {
             options.add_to(app);
             memory.add_to(app);
           },
       .body = body},
      argc, argv);
}
