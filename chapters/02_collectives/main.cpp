/// 02_collectives: trains on several ranks that hold the same model; or measures a collective on
/// them; or simulates one on a machine that is not here.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "chapters/01_memory/memory_options.hpp"
#include "chapters/01_memory/memory_table.hpp"
#include "chapters/01_memory/recompute.hpp"
#include "chapters/01_memory/written_parts.hpp"
#include "chapters/02_collectives/bench_options.hpp"
#include "chapters/02_collectives/book_algorithms.hpp"
#include "chapters/02_collectives/collective_bench.hpp"
#include "chapters/02_collectives/replicated_training.hpp"
#include "chapters/02_collectives/simulate_options.hpp"
#include "chapters/02_collectives/simulate_report.hpp"
#include "common/base/errors.hpp"
#include "common/comm/run_ranks.hpp"
#include "common/train/comm_options.hpp"
#include "common/train/options.hpp"
#include "common/train/program.hpp"
#include "common/train/trainer.hpp"

namespace {

using namespace ultra;

struct Flags {
  train::TrainOptions train;
  memory::MemoryOptions memory;
  train::CommOptions comm;
  collectives::BenchOptions bench;
  collectives::SimulateOptions simulate;

  void add_to(CLI::App& app) {
    train.add_to(app);
    memory.add_to(app);
    comm.add_to(app);
    bench.add_to(app);
    simulate.add_to(app);
  }

  void validate() const {
    memory.validate();
    comm.validate();
    bench.validate();
    simulate.validate();
    if (bench.measures() && simulate.simulates()) {
      throw ConfigError(
          "--op measures a collective on this machine, --simulate predicts it for another: give "
          "one "
          "of them. The collective to simulate is --simulate-op.");
    }
  }

  void validate_training() const {
    train.validate();
    collectives::expect_equal_shares(train.global_batch, train.micro_batch, comm.world_size());
  }

  [[nodiscard]] train::ExtraConfig config() const {
    train::ExtraConfig config = memory.config();
    const train::ExtraConfig more = comm.config();
    config.insert(config.end(), more.begin(), more.end());
    return config;
  }
};

/// For what needs no ranks: under mpirun one process does it.
template <class Fn>
void on_one_rank(Fn&& fn) {
  if (launched_rank() == 0) fn();
}

void simulate(const collectives::SimulateOptions& options) {
  const collectives::SimulationReport report = collectives::simulate_collective(options.request());
  fmt::print("{}", options.json ? collectives::simulation_to_json(report).dump(2) + "\n"
                                : collectives::format_simulation(report));
}

void measure(const Flags& flags) {
  const collectives::BenchRequest request = flags.bench.request(flags.train.dtype);
  RankOptions options =
      flags.comm.rank_options(std::make_shared<const collectives::BookAlgorithms>());
  options.checking = Checking::kOff;  // what is timed is the collective alone
  run_ranks(
      flags.comm.world_size(),
      [&](Communicator& world) {
        const auto rows = collectives::measure_collective(request, world);
        if (world.rank() != 0) return;
        fmt::print("{}",
                   flags.bench.json
                       ? collectives::bench_to_json(request, world.size(), rows).dump(2) + "\n"
                       : collectives::format_bench(request, world.size(), rows));
      },
      options);
}

void train_on(const Communicator& world, const Flags& flags) {
  nn::DenseFactory dense;
  memory::WrittenNormFactory written(dense);
  memory::RecomputeFactory factory(written, flags.memory.recompute);
  const train::TrainerParts parts{
      .factory = factory,
      .forward_backward = collectives::replicated_forward_backward(world, flags.train.micro_batch),
      .adamw = memory::written_adamw,
      .extra_config = flags.config()};
  const train::TrainResult result = train::train(flags.train, parts, world);
  if (world.rank() != 0) return;
  fmt::print("{}", memory::format_memory_table(flags.train, flags.memory.recompute, result));
}

void train_on_all_ranks(const Flags& flags) {
  const auto ours = std::make_shared<const collectives::BookAlgorithms>();
  run_ranks(
      flags.comm.world_size(), [&](Communicator& world) { train_on(world, flags); },
      flags.comm.rank_options(ours));
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Trains a small Llama-style model on ranks that each hold all of it.",
               "02_collectives");
  Flags flags;
  flags.add_to(app);
  return train::run_program(app, argc, argv, [&] {
    flags.validate();
    if (flags.memory.estimates()) {
      return on_one_rank([&] { fmt::print("{}", flags.memory.answer(flags.train)); });
    }
    if (flags.simulate.simulates()) return on_one_rank([&] { simulate(flags.simulate); });
    if (!flags.bench.measures()) flags.validate_training();
    if (flags.train.print_ranks) {
      return on_one_rank([&] { fmt::print("{}\n", flags.comm.world_size()); });
    }
    if (flags.bench.measures()) return measure(flags);
    train_on_all_ranks(flags);
  });
}
