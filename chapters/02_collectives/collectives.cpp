#include <fmt/format.h>

#include <memory>

#include "chapters/02_collectives/collectives.hpp"

#include "chapters/02_collectives/bench/collective_bench.hpp"
#include "chapters/02_collectives/choice/book_algorithms.hpp"
#include "chapters/02_collectives/cost/exchange_price.hpp"
#include "chapters/02_collectives/replicated_training.hpp"
#include "chapters/02_collectives/simulator/simulate_report.hpp"

namespace ultra::collectives {

void CollectivesOptions::add_to(CLI::App& app) {
  bench.add_to(app);
  simulate.add_to(app);
}

void CollectivesOptions::validate(DType dtype) const {
  bench.validate();
  simulate.validate();
  if (measures()) static_cast<void>(bench.request(dtype));
}

std::string CollectivesOptions::simulation() const {
  const SimulationReport report = simulate_collective(simulate.request());
  return simulate.json ? simulation_to_json(report).dump(2) + "\n" : format_simulation(report);
}

void CollectivesOptions::print_measurement(const train::Setup& setup) const {
  BenchRequest request = bench.request(setup.train.dtype);
  request.device = setup.train.device;
  RankOptions options = setup.comm.rank_options(std::make_shared<const BookAlgorithms>());
  options.checking = Checking::kOff;  // what is timed is the collective alone
  run_ranks(
      setup.comm.world_size(),
      [&](Communicator& world) {
        train::expect_same_command_line(world, setup.command_line);
        const auto rows = measure_collective(request, world);
        if (world.rank() != 0) return;
        fmt::print("{}", bench.json ? bench_to_json(request, world.size(), rows).dump(2) + "\n"
                                    : format_bench(request, world.size(), rows));
      },
      options);
}

void Collectives::add_flags(CLI::App& app, train::Setup& setup) {
  setup.comm.add_to(app);
  options_.add_to(app);
}

void Collectives::validate(train::Setup& setup) { options_.validate(setup.train.dtype); }

void Collectives::validate_training(const train::Setup& setup) const {
  if (setup.unequal_shares) return;
  expect_equal_shares(setup.train.global_batch, setup.train.micro_batch, setup.comm.world_size());
}

train::ExtraConfig Collectives::config(const train::Setup& setup) const {
  return setup.comm.config();
}

std::vector<train::Question> Collectives::questions() const {
  std::vector<train::Question> asked;
  if (options_.measures()) asked.push_back({"--op", train::Instead::kMeasurement});
  if (options_.simulates()) asked.push_back({"--simulate", train::Instead::kAnswer});
  return asked;
}

std::optional<std::string> Collectives::answer(const train::Setup&) const {
  if (!options_.simulates()) return {};
  return options_.simulation();
}

void Collectives::measure(const train::Setup& setup) const { options_.print_measurement(setup); }

std::shared_ptr<const comm::CollectiveAlgorithms> Collectives::algorithms(
    const train::AlgorithmNames& names) const {
  return std::make_shared<const BookAlgorithms>(BookOptions{.names = names, .tuning = {}});
}

replay::PriceExchange Collectives::exchange_price() const { return exchange_seconds; }

void Collectives::configure_step(train::StepConfig& step_config, const train::Setup&) const {
  step_config.share.offer(equal_share);
  step_config.exchange.offer([](const train::StatesScope& scope) {
    return sum_after_backward(scope.parameters, scope.data);
  });
}

std::unique_ptr<train::Technique> technique() { return std::make_unique<Collectives>(); }

}  // namespace ultra::collectives
