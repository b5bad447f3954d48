// For how long a checkpoint stops training: the time until the next step may begin, over that of a plain
// copy of as many bytes in memory, in one run. The rest is written while training goes on.

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstring>
#include <filesystem>
#include <memory>
#include <vector>

#include "bench/benchmark_model.hpp"
#include "bench/timing.hpp"
#include "chapters/04_zero/checkpoints/checkpoint_writer.hpp"
#include "chapters/04_zero/checkpoints/training_state.hpp"
#include "common/comm/run_ranks.hpp"
#include "common/nn/model.hpp"

namespace {

using namespace ultra;
using bench::median;
using bench::now;

/// Seconds of a copy between two pieces of memory that have been used before.
double seconds_to_copy(std::size_t bytes) {
  const std::vector<char> from(bytes, 'a');
  std::vector<char> to(bytes, 'b');
  const double start = now();
  std::memcpy(to.data(), from.data(), bytes);
  benchmark::DoNotOptimize(to.data());
  return now() - start;
}

/// A model that has made a step, so that it has moments.
struct Trained {
  explicit Trained(const nn::ModelConfig& config)
      : model(config, Device::cpu(), DType::kF32, 1, factory),
        optimizer(std::make_shared<optim::AdamW>(optim::AdamWConfig{})) {
    std::vector<optim::TensorUpdate> updates;
    for (const nn::Parameter* parameter : model.parameters()) {
      updates.push_back(
          {.value = parameter->value(), .grad = parameter->value().clone(), .decay = false});
    }
    optimizer->step(updates, 1e-4, 1.0);
  }

  nn::DenseFactory factory;
  nn::Model model;
  std::shared_ptr<optim::AdamW> optimizer;
};

void checkpoint_against_copy(benchmark::State& state) {
  const nn::ModelConfig config = bench::benchmark_model(static_cast<std::size_t>(state.range(0)));
  const auto folder = std::filesystem::temp_directory_path() / "bench_checkpoint";
  std::vector<double> ratios;
  std::vector<double> shares;
  std::size_t bytes = 0;
  run_ranks(1, [&](Communicator& world) {
    Trained trained(config);
    const zero::TrainingState saved =
        zero::replicated_state(trained.model, trained.optimizer, world);
    bytes = 3 * sizeof(float) * trained.model.parameter_count();
    zero::CheckpointWriter writer(checkpoint::posix_files(), folder, 1, world);
    zero::TrainingRecord record{.identity = {.model = config, .data = {}}, .steps = {}};
    for (auto _ : state) {
      record.steps.emplace_back().step = record.steps.size();
      const double start = now();
      writer.begin(saved, record);
      const double stopped = now() - start;
      writer.finish();
      const double all = now() - start;
      if (record.steps.size() == 1) continue;  // takes the memory for the copies from the system
      ratios.push_back(stopped / seconds_to_copy(bytes));
      shares.push_back(stopped / all);
    }
  });
  std::filesystem::remove_all(folder);
  state.counters["stopped_over_copy"] = median(ratios);
  state.counters["stopped_share"] = median(shares);
  state.counters["MB"] = static_cast<double>(bytes) / 1e6;
}
BENCHMARK(checkpoint_against_copy)
    ->ArgName("hidden")
    ->Arg(384)
    ->Arg(1024)
    ->Unit(benchmark::kSecond)
    ->Iterations(8);

}  // namespace

BENCHMARK_MAIN();
