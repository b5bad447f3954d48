/// 03_data_parallel: trains replicas of a model that average their gradients while they compute, or
/// leave that to parameter servers; or predicts how far that scales.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <utility>

#include "chapters/01_memory/memory_options.hpp"
#include "chapters/01_memory/memory_table.hpp"
#include "chapters/01_memory/recompute.hpp"
#include "chapters/01_memory/written_parts.hpp"
#include "chapters/02_collectives/collectives_options.hpp"
#include "chapters/03_data_parallel/communication_table.hpp"
#include "chapters/03_data_parallel/data_parallel_options.hpp"
#include "chapters/03_data_parallel/data_parallel_training.hpp"
#include "chapters/03_data_parallel/replica_check.hpp"
#include "chapters/03_data_parallel/scaling_options.hpp"
#include "chapters/03_data_parallel/server_options.hpp"
#include "chapters/03_data_parallel/server_training.hpp"
#include "common/base/errors.hpp"
#include "common/comm/run_ranks.hpp"
#include "common/train/options.hpp"
#include "common/train/program.hpp"
#include "common/train/trainer.hpp"

namespace {

using namespace ultra;

struct Flags {
  train::TrainOptions train;
  memory::MemoryOptions memory;
  collectives::CollectivesOptions collectives;
  data_parallel::DataParallelOptions data_parallel;
  data_parallel::ServerOptions servers;
  data_parallel::ScalingOptions scaling;

  void add_to(CLI::App& app) {
    train.add_to(app);
    memory.add_to(app);
    collectives.add_to(app);
    data_parallel.add_to(app);
    servers.add_to(app);
    scaling.add_to(app);
  }

  void validate() {
    memory.validate();
    data_parallel.validate();
    servers.validate();
    if (uses_servers() && !data_parallel.all_reduce_flag().empty()) {
      throw ConfigError(fmt::format(
          "{} belongs to replicas that average their gradients themselves, and has no meaning with "
          "--sync parameter-server. Leave one of the two out.",
          data_parallel.all_reduce_flag()));
    }
    data_parallel.resolve_ranks(collectives.comm, servers.num_servers());
    collectives.validate();
    scaling.validate();
  }

  void validate_training() const {
    train.validate();
    data_parallel::DataParallelOptions::expect_work_for_all(train.global_batch, replicas());
    servers.expect_straggler_among(replicas());
  }

  [[nodiscard]] bool uses_servers() const { return servers.num_servers() > 0; }
  [[nodiscard]] int replicas() const {
    return data_parallel::DataParallelOptions::replicas(collectives.comm, servers.num_servers());
  }

  [[nodiscard]] train::ExtraConfig config() const {
    return train::joined({{{"dp", static_cast<std::size_t>(replicas())}},
                          memory.config(),
                          collectives.comm.config(),
                          data_parallel.config(),
                          servers.config()});
  }
};

/// The passes of a replica, late in each step if it is the straggler.
train::ForwardBackward with_delay(train::ForwardBackward passes, const Flags& flags,
                                  const Communicator& dp) {
  const auto slow = flags.servers.slow_replica();
  return slow ? data_parallel::with_straggler(std::move(passes), *slow, dp) : passes;
}

train::TrainResult train_by_all_reduce(const Communicator& dp, const Flags& flags,
                                       nn::LayerFactory& factory) {
  const data_parallel::DataParallelOptions& options = flags.data_parallel;
  train::ForwardBackward passes = data_parallel::data_parallel_forward_backward(
      dp, flags.train.micro_batch, options.make_sync(dp, flags.train.dtype));
  const train::TrainerParts parts{
      .factory = factory,
      .forward_backward = with_delay(std::move(passes), flags, dp),
      .update = data_parallel::checked_every(
          train::clipped_adamw(flags.train, options.adamw(memory::written_adamw)), dp,
          options.check_replicas),
      .extra_config = flags.config()};
  return train::train(flags.train, parts, dp);
}

train::TrainResult train_by_servers(const Communicator& world, const Flags& flags,
                                    nn::LayerFactory& factory) {
  const auto servers =
      data_parallel::make_server_world(world, flags.servers.settings(flags.train.dtype));
  const data_parallel::ServerParts parts{.factory = factory,
                                         .micro_batch = flags.train.micro_batch,
                                         .adamw = memory::written_adamw,
                                         .change = [&](train::ForwardBackward passes) {
                                           return with_delay(std::move(passes), flags,
                                                             servers.group);
                                         }};
  return train::train(flags.train, data_parallel::parameter_server_worker(servers, parts),
                      flags.config(), world);
}

void train_on(const Communicator& world, const Flags& flags) {
  nn::DenseFactory dense;
  memory::WrittenNormFactory written(dense);
  memory::RecomputeFactory factory(written, flags.memory.recompute);
  const train::TrainResult result = flags.uses_servers()
                                        ? train_by_servers(world, flags, factory)
                                        : train_by_all_reduce(world, flags, factory);
  if (world.rank() != 0) return;
  if (!flags.uses_servers()) {
    fmt::print("{}", memory::format_memory_table(flags.train, flags.memory.recompute, result));
  }
  fmt::print("{}", data_parallel::format_communication_table(result));
}

void train_on_all_ranks(const Flags& flags) {
  const train::CommOptions& comm = flags.collectives.comm;
  run_ranks(
      comm.world_size(), [&](Communicator& world) { train_on(world, flags); },
      comm.rank_options(flags.data_parallel.algorithms()));
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Trains replicas of a small Llama-style model, each on its share of the batch.",
               "03_data_parallel");
  Flags flags;
  flags.add_to(app);
  return train::run_program(app, argc, argv, [&] {
    flags.validate();
    if (flags.memory.estimates()) {
      return collectives::on_one_process(
          [&] { fmt::print("{}", flags.memory.answer(flags.train)); });
    }
    if (flags.scaling.predicts()) {
      return collectives::on_one_process(
          [&] { fmt::print("{}", flags.scaling.answer(flags.train.model)); });
    }
    flags.collectives.run(
        flags.train, [&] { flags.validate_training(); }, [&] { train_on_all_ranks(flags); });
  });
}
