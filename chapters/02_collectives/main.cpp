/// 02_collectives: trains on several ranks that hold the same model; or measures a collective on
/// them; or simulates one on a machine that is not here.

#include <fmt/format.h>

#include <memory>

#include "chapters/01_memory/estimate/memory_table.hpp"
#include "chapters/01_memory/memory_options.hpp"
#include "chapters/01_memory/written_parts.hpp"
#include "chapters/02_collectives/collectives_options.hpp"
#include "chapters/02_collectives/replicated_training.hpp"
#include "common/comm/run_ranks.hpp"
#include "common/train/options/options.hpp"
#include "common/train/program.hpp"
#include "common/train/trainer.hpp"

namespace {

using namespace ultra;

struct Flags {
  train::TrainOptions train;
  memory::MemoryOptions memory;
  collectives::CollectivesOptions collectives;

  void add_to(CLI::App& app) {
    train.add_to(app);
    memory.add_to(app);
    collectives.add_to(app);
  }

  void validate() const {
    memory.validate();
    collectives.validate();
  }

  void validate_training() const {
    train.validate();
    collectives::expect_equal_shares(train.global_batch, train.micro_batch,
                                     collectives.comm.world_size());
  }

  [[nodiscard]] train::ExtraConfig config() const {
    return train::joined({memory.config(), collectives.comm.config()});
  }
};

void train_on(const Communicator& world, const Flags& flags, nn::LayerFactory& factory) {
  const train::TrainerParts parts{
      .factory = factory,
      .forward_backward = collectives::replicated_forward_backward(world, flags.train.micro_batch),
      .update = train::clipped_adamw(flags.train, memory::written_adamw),
      .extra_config = flags.config()};
  const train::TrainResult result = train::train(flags.train, parts, world);
  if (world.rank() != 0) return;
  fmt::print("{}", memory::format_memory_table(flags.train, flags.memory.recompute, result));
}

void train_on_all_ranks(const Flags& flags) {
  const train::CommOptions& comm = flags.collectives.comm;
  const auto ours = std::make_shared<const collectives::BookAlgorithms>();
  run_ranks(
      comm.world_size(),
      [&](Communicator& world) {
        memory::with_written_parts(flags.memory.recompute, [&](nn::LayerFactory& factory) {
          train_on(world, flags, factory);
        });
      },
      comm.rank_options(ours));
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags;
  const auto body = [&] {
    flags.validate();
    if (flags.memory.estimates()) {
      return collectives::on_one_process(
          [&] { fmt::print("{}", flags.memory.answer(flags.train)); });
    }
    flags.collectives.run(
        flags.train, [&] { flags.validate_training(); }, [&] { train_on_all_ranks(flags); });
  };
  return train::run_program(
      {.name = "02_collectives",
       .description = "Trains a small Llama-style model on ranks that each hold all of it.",
       .add_flags = [&](CLI::App& app) { flags.add_to(app); },
       .body = body},
      argc, argv);
}
