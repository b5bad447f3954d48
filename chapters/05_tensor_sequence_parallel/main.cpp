/// 05_tensor_sequence_parallel: trains a model whose matrices are split over ranks; or says how much
/// memory that takes.

#include <fmt/format.h>

#include "chapters/01_memory/written_parts.hpp"
#include "chapters/05_tensor_sequence_parallel/tensor_parallel_program.hpp"
#include "common/comm/run_ranks.hpp"
#include "common/train/program.hpp"

namespace {

using namespace ultra;

void train_on_all_ranks(const tensor_parallel::TensorParallelProgram& program) {
  const train::CommOptions& comm = program.base.base.collectives.comm;
  run_ranks(
      comm.world_size(),
      [&](Communicator& world) {
        memory::with_written_parts(
            program.base.base.memory.recompute, [&](nn::LayerFactory& factory) {
              const train::TrainResult result = program.train_on(world, factory, program.config());
              if (world.rank() == 0) fmt::print("{}", program.tables(result));
            });
      },
      comm.rank_options(program.base.zero.algorithms(program.base.base.data_parallel)));
}

}  // namespace

int main(int argc, char** argv) {
  tensor_parallel::TensorParallelProgram program;
  const auto body = [&] {
    program.validate();
    data_parallel::DataParallelProgram& base = program.base.base;
    if (base.memory.estimates()) {
      return collectives::on_one_process([&] { fmt::print("{}", program.estimate()); });
    }
    if (base.scaling.predicts()) {
      return collectives::on_one_process(
          [&] { fmt::print("{}", base.scaling.answer(base.train.model)); });
    }
    if (program.scaling.predicts()) {
      return collectives::on_one_process(
          [&] { fmt::print("{}", program.scaling.answer(base.train.model)); });
    }
    if (program.tensor_parallel.shapes != tensor_parallel::Shapes::kNone) {
      return collectives::on_one_process([&] { fmt::print("{}", program.shapes()); });
    }
    base.collectives.run(
        base.train, [&] { program.validate_training(); }, [&] { train_on_all_ranks(program); });
  };
  return train::run_program(
      {.name = "05_tensor_sequence_parallel",
       .description =
           "Trains a small Llama-style model whose matrices and sequences are split over ranks.",
       .add_flags = [&](CLI::App& app) { program.add_to(app); },
       .body = body},
      argc, argv);
}
