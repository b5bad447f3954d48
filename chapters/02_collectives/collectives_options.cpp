#include "chapters/02_collectives/collectives_options.hpp"

#include <fmt/format.h>

#include <memory>

#include "chapters/02_collectives/bench/collective_bench.hpp"
#include "chapters/02_collectives/choice/book_algorithms.hpp"
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

}  // namespace ultra::collectives
