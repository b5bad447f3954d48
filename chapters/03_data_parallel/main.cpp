/// 03_data_parallel: trains replicas of a model that average their gradients while they compute, or
/// leave that to parameter servers; or predicts how far that scales.

#include <fmt/format.h>

#include "chapters/01_memory/written_parts.hpp"
#include "chapters/03_data_parallel/data_parallel_program.hpp"
#include "common/comm/run_ranks.hpp"
#include "common/train/program.hpp"

namespace {

using namespace ultra;

void train_on_all_ranks(const data_parallel::DataParallelProgram& program) {
  const train::CommOptions& comm = program.collectives.comm;
  run_ranks(
      comm.world_size(),
      [&](Communicator& world) {
        memory::with_written_parts(program.memory.recompute, [&](nn::LayerFactory& factory) {
          const train::TrainResult result = program.train_on(
              data_parallel::ReplicaRanks::whole(world), factory, program.config());
          if (world.rank() == 0) fmt::print("{}", program.tables(result));
        });
      },
      comm.rank_options(program.data_parallel.algorithms()));
}

}  // namespace

int main(int argc, char** argv) {
  data_parallel::DataParallelProgram program;
  const auto body = [&] {
    program.validate();
    if (program.memory.estimates()) {
      return collectives::on_one_process(
          [&] { fmt::print("{}", program.memory.answer(program.train)); });
    }
    if (program.scaling.predicts()) {
      return collectives::on_one_process(
          [&] { fmt::print("{}", program.scaling.answer(program.train.model)); });
    }
    program.collectives.run(
        program.train, [&] { program.validate_training(); }, [&] { train_on_all_ranks(program); });
  };
  return train::run_program(
      {.name = "03_data_parallel",
       .description =
           "Trains replicas of a small Llama-style model, each on its share of the batch.",
       .add_flags = [&](CLI::App& app) { program.add_to(app); },
       .body = body},
      argc, argv);
}
