/// 04_zero: trains replicas that share the model's states out among themselves; or says how much
/// memory that takes.

#include <fmt/format.h>

#include "chapters/01_memory/written_parts.hpp"
#include "chapters/04_zero/zero_program.hpp"
#include "common/comm/run_ranks.hpp"
#include "common/train/program.hpp"

namespace {

using namespace ultra;

void train_on_all_ranks(const zero::ZeroProgram& program) {
  const train::CommOptions& comm = program.base.collectives.comm;
  run_ranks(
      comm.world_size(),
      [&](Communicator& world) {
        memory::with_written_parts(program.base.memory.recompute, [&](nn::LayerFactory& factory) {
          const train::TrainResult result = program.train_on(
              data_parallel::ReplicaRanks::whole(world), factory, program.config());
          if (world.rank() == 0) fmt::print("{}", program.tables(result));
        });
      },
      comm.rank_options(program.zero.algorithms(program.base.data_parallel)));
}

}  // namespace

int main(int argc, char** argv) {
  zero::ZeroProgram program;
  const auto body = [&] {
    program.validate();
    data_parallel::DataParallelProgram& base = program.base;
    if (base.memory.estimates()) {
      return collectives::on_one_process([&] { fmt::print("{}", program.estimate()); });
    }
    if (base.scaling.predicts()) {
      return collectives::on_one_process(
          [&] { fmt::print("{}", base.scaling.answer(base.train.model)); });
    }
    base.collectives.run(
        base.train, [&] { base.validate_training(); }, [&] { train_on_all_ranks(program); });
  };
  return train::run_program(
      {.name = "04_zero",
       .description = "Trains replicas of a small Llama-style model that share its states out.",
       .add_flags = [&](CLI::App& app) { program.add_to(app); },
       .body = body},
      argc, argv);
}
