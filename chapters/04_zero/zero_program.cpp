#include "chapters/04_zero/zero_program.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "chapters/01_memory/written_parts.hpp"
#include "chapters/03_data_parallel/communication_table.hpp"
#include "chapters/03_data_parallel/replica_check.hpp"
#include "chapters/04_zero/checkpoints/checkpointed_worker.hpp"
#include "chapters/04_zero/estimate/zero_estimate.hpp"
#include "chapters/04_zero/estimate/zero_memory_table.hpp"
#include "chapters/04_zero/zero_training.hpp"
#include "common/base/errors.hpp"
#include "common/base/numeric.hpp"
#include "common/train/trainer.hpp"

namespace ultra::zero {

void ZeroProgram::add_to(CLI::App& app) {
  base.add_to(app);
  zero.add_to(app);
  checkpoints.add_to(app);
  offload.add_to(app);
}

void ZeroProgram::validate() {
  base.validate();
  zero.validate(base.data_parallel, base.servers.num_servers());
  offload.validate(zero.stage, base.train.device);
  expect_weights_in_one_place();
  if (!base.memory.estimates()) zero.expect_nodes_of(base.replicas());
  checkpoints.validate();
  expect_whole_state();
}

train::ExtraConfig ZeroProgram::config() const {
  return train::joined(
      {base.config(), zero.config(base.data_parallel), offload.config(), checkpoints.config()});
}

std::string ZeroProgram::estimate() const {
  const auto ranks =
      checked_cast<int>(base.data_parallel.dp.value_or(base.collectives.comm.ranks.value_or(8)));
  return answer(base.memory, base.train, ranks, zero.node_size);
}

ZeroSettings ZeroProgram::settings() const {
  ZeroSettings settings = zero.settings(base.data_parallel, base.train.dtype);
  settings.offload = offload.settings();
  return settings;
}

ShardedRun ZeroProgram::sharded_run() const {
  const auto replicas = static_cast<std::size_t>(base.replicas());
  const std::size_t share = (base.train.global_batch + replicas - 1) / replicas;
  const Sharding sharding = zero.sharding(base.replicas());
  return {.model = base.train.model,
          .dtype = base.train.dtype,
          .settings = settings(),
          .shards = sharding.shards,
          .replicas = sharding.replicas,
          .micro_batches = (share + base.train.micro_batch - 1) / base.train.micro_batch,
          .recompute_every = base.memory.recompute.recompute_every};
}

// Saves and loads the state if a flag asks for it.
KeepState ZeroProgram::keep_state() const {
  if (!checkpoints.used()) return {};
  return with_checkpoints(checkpoints, checkpoint::posix_files());
}

// Throws when weights are offloaded and shall travel in another way than ZeRO-3's.
void ZeroProgram::expect_weights_in_one_place() const {
  if (!offload.settings().offloads_parameters() || zero.plus_plus.techniques.empty()) return;
  throw ConfigError(
      "--offload optimizer+params does not go together with --zero++: its units expect their "
      "shards on the device. Use --offload optimizer, or leave out --zero++.");
}

// Throws for trainings with a state that checkpoints do not hold.
void ZeroProgram::expect_whole_state() const {
  if (!checkpoints.used()) return;
  if (base.uses_servers()) {
    throw ConfigError(
        "checkpoints do not go together with --sync parameter-server: the servers' weights and "
        "moments would not be saved. Leave out --checkpoint and --resume, or the servers.");
  }
  if (base.data_parallel.compress != "none") {
    throw ConfigError(
        "checkpoints do not go together with --compress: what the compression has left over would "
        "not be saved. Leave out --checkpoint and --resume, or --compress.");
  }
}

train::TrainResult ZeroProgram::train_sharded(const data_parallel::ReplicaRanks& ranks,
                                              nn::LayerFactory& factory,
                                              const train::ExtraConfig& extra_config) const {
  const ZeroParts parts{.factory = factory,
                        .micro_batch = base.train.micro_batch,
                        .adamw = memory::written_adamw,
                        .change_passes =
                            [&](train::ForwardBackward passes) {
                              return base.with_delay(std::move(passes), ranks.dp);
                            },
                        .change_update =
                            [&](train::Update update) {
                              return data_parallel::checked_every(
                                  std::move(update), ranks.dp, base.data_parallel.check_replicas);
                            },
                        .keep_state = keep_state(),
                        .finish_gradients = ranks.finish_gradients};
  const ShardGroups groups = make_shard_groups(ranks.dp, zero.node_size);
  return train::train(base.train, zero_worker(groups, settings(), parts), extra_config,
                      ranks.world);
}

train::TrainResult ZeroProgram::train_replicas(const data_parallel::ReplicaRanks& ranks,
                                               nn::LayerFactory& factory,
                                               const train::ExtraConfig& extra_config) const {
  data_parallel::ChangeReplica change;
  if (const KeepState keep = keep_state()) {
    change = [&ranks, keep](std::unique_ptr<train::ModelWorker> worker,
                            std::shared_ptr<optim::AdamW> optimizer,
                            const train::RunContext& context) {
      auto state = std::make_unique<TrainingState>(
          replicated_state(worker->model(), std::move(optimizer), ranks.dp));
      return keep(std::move(worker), std::move(state), context);
    };
  }
  return base.train_on(ranks, factory, extra_config, change);
}

train::TrainResult ZeroProgram::train_on(const data_parallel::ReplicaRanks& ranks,
                                         nn::LayerFactory& factory,
                                         const train::ExtraConfig& extra_config) const {
  return zero.shards() ? train_sharded(ranks, factory, extra_config)
                       : train_replicas(ranks, factory, extra_config);
}

std::string ZeroProgram::tables(const train::TrainResult& result) const {
  if (!zero.shards()) return base.tables(result);
  if (result.steps_made() == 0) return {};
  const auto algorithms = zero.algorithms(base.data_parallel);
  return format_zero_memory_table(base.train, base.memory.recompute, sharded_run(), *algorithms,
                                  result) +
         data_parallel::format_communication_table(result);
}

}  // namespace ultra::zero
