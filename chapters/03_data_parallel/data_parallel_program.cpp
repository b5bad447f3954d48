#include "chapters/03_data_parallel/data_parallel_program.hpp"

#include <fmt/format.h>

#include <utility>

#include "chapters/01_memory/estimate/memory_table.hpp"
#include "chapters/01_memory/written_parts.hpp"
#include "chapters/03_data_parallel/communication_table.hpp"
#include "chapters/03_data_parallel/data_parallel_training.hpp"
#include "chapters/03_data_parallel/parameter_server/server_training.hpp"
#include "chapters/03_data_parallel/replica_check.hpp"
#include "common/base/errors.hpp"
#include "common/train/trainer.hpp"

namespace ultra::data_parallel {
namespace {

train::TrainResult train_by_all_reduce(const ReplicaRanks& ranks,
                                       const DataParallelProgram& program,
                                       nn::LayerFactory& factory,
                                       const train::ExtraConfig& extra_config,
                                       const ChangeReplica& change) {
  const DataParallelOptions& options = program.data_parallel;
  const Communicator& dp = ranks.dp;
  const train::FinishGradients finish =
      ranks.finish_gradients ? ranks.finish_gradients : train::gradient_norm;
  const train::MakeWorker make_worker =
      [&](const train::RunContext& context) -> std::unique_ptr<train::Worker> {
    const auto optimizer =
        std::make_shared<optim::AdamW>(optim::AdamWConfig{}, options.adamw(memory::written_adamw));
    train::ForwardBackward passes = data_parallel_forward_backward(
        dp, program.train.micro_batch, options.make_sync(dp, program.train.dtype));
    auto worker = std::make_unique<train::ModelWorker>(
        context, train::TrainerParts{
                     .factory = factory,
                     .forward_backward = program.with_delay(std::move(passes), dp),
                     .update = checked_every(train::clipped_adamw(program.train, optimizer, finish),
                                             dp, options.check_replicas),
                     .extra_config = {}});
    if (!change) return worker;
    return change(std::move(worker), optimizer, context);
  };
  return train::train(program.train, make_worker, extra_config, ranks.world);
}

train::TrainResult train_by_servers(const Communicator& world, const DataParallelProgram& program,
                                    nn::LayerFactory& factory,
                                    const train::ExtraConfig& extra_config) {
  const auto servers = make_server_world(world, program.servers.settings(program.train.dtype));
  const ServerParts parts{.factory = factory,
                          .micro_batch = program.train.micro_batch,
                          .adamw = memory::written_adamw,
                          .change = [&](train::ForwardBackward passes) {
                            return program.with_delay(std::move(passes), servers.group);
                          }};
  return train::train(program.train, parameter_server_worker(servers, parts), extra_config, world);
}

}  // namespace

void DataParallelProgram::add_to(CLI::App& app) {
  train.add_to(app);
  memory.add_to(app);
  collectives.add_to(app);
  data_parallel.add_to(app);
  servers.add_to(app);
  scaling.add_to(app);
}

void DataParallelProgram::validate() {
  memory.validate();
  data_parallel.validate();
  servers.validate();
  if (uses_servers() && !data_parallel.all_reduce_flag().empty()) {
    throw ConfigError(fmt::format(
        "{} belongs to replicas that average their gradients themselves, and has no meaning with "
        "--sync parameter-server. Leave one of the two out.",
        data_parallel.all_reduce_flag()));
  }
  // An estimate may be asked for more ranks than can run here.
  if (!memory.estimates()) {
    data_parallel.resolve_ranks(collectives.comm, servers.num_servers(), replica);
  }
  collectives.validate();
  scaling.validate();
}

void DataParallelProgram::validate_training() const {
  train.validate();
  DataParallelOptions::expect_work_for_all(train.global_batch, replicas());
  servers.expect_straggler_among(replicas());
}

int DataParallelProgram::replicas() const {
  return DataParallelOptions::replicas(collectives.comm, servers.num_servers(), replica);
}

train::ExtraConfig DataParallelProgram::config() const {
  return train::joined({{{"dp", static_cast<std::size_t>(replicas())}},
                        memory.config(),
                        collectives.comm.config(),
                        data_parallel.config(),
                        servers.config()});
}

train::ForwardBackward DataParallelProgram::with_delay(train::ForwardBackward passes,
                                                       const Communicator& dp) const {
  const auto slow = servers.slow_replica();
  return slow ? with_straggler(std::move(passes), *slow, dp) : passes;
}

train::TrainResult DataParallelProgram::train_on(const ReplicaRanks& ranks,
                                                 nn::LayerFactory& factory,
                                                 const train::ExtraConfig& extra_config,
                                                 const ChangeReplica& change) const {
  return uses_servers() ? train_by_servers(ranks.world, *this, factory, extra_config)
                        : train_by_all_reduce(ranks, *this, factory, extra_config, change);
}

std::string DataParallelProgram::tables(const train::TrainResult& result) const {
  if (result.steps_made() == 0) return {};
  std::string text;
  if (!uses_servers()) text = memory::format_memory_table(train, memory.recompute, result);
  return text + format_communication_table(result);
}

}  // namespace ultra::data_parallel
