/// 04_zero: trains replicas that share the model's states out among themselves; or says how much
/// memory that takes.

#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>

#include "chapters/01_memory/written_parts.hpp"
#include "chapters/03_data_parallel/communication_table.hpp"
#include "chapters/03_data_parallel/data_parallel_program.hpp"
#include "chapters/03_data_parallel/replica_check.hpp"
#include "chapters/04_zero/checkpoint_options.hpp"
#include "chapters/04_zero/checkpointed_worker.hpp"
#include "chapters/04_zero/offload_options.hpp"
#include "chapters/04_zero/zero_estimate.hpp"
#include "chapters/04_zero/zero_memory_table.hpp"
#include "chapters/04_zero/zero_options.hpp"
#include "chapters/04_zero/zero_training.hpp"
#include "common/base/errors.hpp"
#include "common/base/numeric.hpp"
#include "common/comm/run_ranks.hpp"
#include "common/train/program.hpp"
#include "common/train/trainer.hpp"

namespace {

using namespace ultra;

struct Program {
  data_parallel::DataParallelProgram base;
  zero::ZeroOptions zero;
  zero::CheckpointOptions checkpoints;
  zero::OffloadOptions offload;

  void add_to(CLI::App& app) {
    base.add_to(app);
    zero.add_to(app);
    checkpoints.add_to(app);
    offload.add_to(app);
  }

  void validate() {
    base.validate();
    zero.validate(base.data_parallel, base.servers.num_servers());
    offload.validate(zero.stage, base.train.device);
    expect_weights_in_one_place();
    if (!base.memory.estimates()) zero.expect_nodes_of(base.replicas());
    checkpoints.validate();
    expect_whole_state();
  }

  [[nodiscard]] train::ExtraConfig config() const {
    return train::joined(
        {base.config(), zero.config(base.data_parallel), offload.config(), checkpoints.config()});
  }

  /// Saves and loads the state if a flag asks for it.
  [[nodiscard]] zero::KeepState keep_state() const {
    if (!checkpoints.used()) return {};
    return zero::with_checkpoints(checkpoints, checkpoint::posix_files());
  }

  /// How the model is sharded, and what of it is offloaded.
  [[nodiscard]] zero::ZeroSettings settings() const {
    zero::ZeroSettings settings = zero.settings(base.data_parallel, base.train.dtype);
    settings.offload = offload.settings();
    return settings;
  }

  /// The answer to --estimate, on as many ranks as --dp or --ranks says: a node of 8 by default.
  [[nodiscard]] std::string estimate() const {
    const auto ranks =
        checked_cast<int>(base.data_parallel.dp.value_or(base.collectives.comm.ranks.value_or(8)));
    return zero::answer(base.memory, base.train, ranks, zero.node_size);
  }

  /// Throws when weights are offloaded and shall travel in another way than ZeRO-3's.
  void expect_weights_in_one_place() const {
    if (!offload.settings().offloads_parameters() || zero.plus_plus.techniques.empty()) return;
    throw ConfigError(
        "--offload optimizer+params does not go together with --zero++: its units expect their "
        "shards on the device. Use --offload optimizer, or leave out --zero++.");
  }

  /// Throws for trainings with a state that checkpoints do not hold.
  void expect_whole_state() const {
    if (!checkpoints.used()) return;
    if (base.uses_servers()) {
      throw ConfigError(
          "checkpoints do not go together with --sync parameter-server: the servers' weights and "
          "moments would not be saved. Leave out --checkpoint and --resume, or the servers.");
    }
    if (base.data_parallel.compress != "none") {
      throw ConfigError(
          "checkpoints do not go together with --compress: what the compression has left over "
          "would "
          "not be saved. Leave out --checkpoint and --resume, or --compress.");
    }
  }

  /// What the replicas' shares and their largest micro-batch are, for the closed forms.
  [[nodiscard]] zero::ShardedRun sharded_run() const {
    const auto replicas = static_cast<std::size_t>(base.replicas());
    const std::size_t share = (base.train.global_batch + replicas - 1) / replicas;
    const zero::Sharding sharding = zero.sharding(base.replicas());
    return {.model = base.train.model,
            .dtype = base.train.dtype,
            .settings = settings(),
            .shards = sharding.shards,
            .replicas = sharding.replicas,
            .micro_batches = (share + base.train.micro_batch - 1) / base.train.micro_batch,
            .recompute_every = base.memory.recompute.recompute_every};
  }
};

void train_sharded(const Communicator& dp, const Program& program, nn::LayerFactory& factory) {
  const data_parallel::DataParallelProgram& base = program.base;
  const zero::ZeroParts parts{
      .factory = factory,
      .micro_batch = base.train.micro_batch,
      .adamw = memory::written_adamw,
      .change_passes =
          [&](train::ForwardBackward passes) { return base.with_delay(std::move(passes), dp); },
      .change_update =
          [&](train::Update update) {
            return data_parallel::checked_every(std::move(update), dp,
                                                base.data_parallel.check_replicas);
          },
      .keep_state = program.keep_state()};
  const zero::ShardGroups ranks = zero::make_shard_groups(dp, program.zero.node_size);
  const train::TrainResult result = train::train(
      base.train, zero::zero_worker(ranks, program.settings(), parts), program.config(), dp);
  if (dp.rank() != 0 || result.steps_made() == 0) return;
  const auto algorithms = program.zero.algorithms(base.data_parallel);
  fmt::print("{}", zero::format_zero_memory_table(base.train, base.memory.recompute,
                                                  program.sharded_run(), *algorithms, result));
  fmt::print("{}", data_parallel::format_communication_table(result));
}

void train_replicas(const Communicator& world, const Program& program, nn::LayerFactory& factory) {
  data_parallel::ChangeReplica change;
  if (const zero::KeepState keep = program.keep_state()) {
    change = [&world, keep](std::unique_ptr<train::ModelWorker> worker,
                            std::shared_ptr<optim::AdamW> optimizer,
                            const train::RunContext& context) {
      auto state = std::make_unique<zero::TrainingState>(
          zero::replicated_state(worker->model(), std::move(optimizer), world));
      return keep(std::move(worker), std::move(state), context);
    };
  }
  program.base.train_on(world, factory, program.config(), change);
}

void train_on_all_ranks(const Program& program) {
  const train::CommOptions& comm = program.base.collectives.comm;
  run_ranks(
      comm.world_size(),
      [&](Communicator& world) {
        memory::with_written_parts(program.base.memory.recompute, [&](nn::LayerFactory& factory) {
          if (program.zero.shards()) return train_sharded(world, program, factory);
          train_replicas(world, program, factory);
        });
      },
      comm.rank_options(program.zero.algorithms(program.base.data_parallel)));
}

}  // namespace

int main(int argc, char** argv) {
  Program program;
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
