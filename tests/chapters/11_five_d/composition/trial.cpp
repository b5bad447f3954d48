#include "tests/chapters/11_five_d/composition/trial.hpp"

#include <set>

#include "common/base/numeric.hpp"
#include "common/comm/run_ranks.hpp"
#include "tests/support/files/temporary_folder.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/plain_training.hpp"
#include "tests/support/training/rank_runs.hpp"

namespace ultra::five_d::test {
namespace {

using ultra::test::RankRun;

/// A hang would be one.
constexpr std::chrono::seconds kLongestWait{60};

/// Relative distance of losses where less than all bits travel.
constexpr double kNear = 0.05;
/// And where numbers have two bytes, which layouts round at other places.
constexpr double kNearInTwoBytes = 0.005;
/// Of int8 weights (ZeRO++) losses are near as of one of that much at least: a mask may leave of a step the z-loss
/// alone, 0.001, and a block that has the router's weights beside a norm's rounds them by a tenth.
constexpr double kLeastLoss = 0.01;

/// Muon's step is as large for a gradient that all but cancels out, as a router's does whose experts are alike, and
/// its five Newton-Schulz steps multiply a small singular value by up to 3.4445 each: roundings of 1e-16
/// in gradients were seen to come to 1e-9 of a weight. By SGD the same gradients give weights that agree.
const double kSteepest = std::pow(3.4445, 5);

/// Loss, norm, validation loss and loss of the tokens after next of each step.
std::vector<double> numbers_of(const train::TrainResult& result) {
  std::vector<double> numbers;
  for (const train::StepMetrics& step : result.steps) {
    numbers.insert(numbers.end(), {step.loss, step.grad_norm, step.validation_loss.value_or(0.0),
                                   step.next_loss.value_or(0.0)});
  }
  return numbers;
}

/// Whether all ranks have the same numbers. Collective.
bool alike_on_all(const Communicator& world, const std::vector<double>& numbers) {
  const Tensor first = Tensor::from<double>(Device::cpu(), {numbers.size()}, numbers).clone();
  world.broadcast(first, 0).wait();
  const std::vector<double> other = {first.to_vector() == numbers ? 0.0 : 1.0};
  const Tensor others = Tensor::from<double>(Device::cpu(), {1}, other).clone();
  world.all_reduce(others).wait();
  return others.to_vector().front() == 0.0;
}

/// The training of rank 0, in the process that has it; and whether all ranks reported the same.
struct Trained {
  std::optional<RankRun> run;
  bool alike = true;
};

Trained trained(const Configuration& configuration) {
  Trained trained;
  RankOptions options = setup_of(configuration).rank_options();
  options.timeout = kLongestWait;
  static_cast<void>(ultra::test::quietly([&] {
    run_ranks(
        checked_cast<int>(configuration.ranks()),
        [&](Communicator& world) {
          RankRun run = ultra::test::run_of(setup_of(configuration), world);
          const bool alike = alike_on_all(world, numbers_of(run.result));
          if (world.rank() != 0) return;
          trained.alike = alike;
          trained.run = std::move(run);
        },
        options);
  }));
  return trained;
}

/// The training, in one go or from one layout to another.
Trained trained_as_asked(const Configuration& configuration) {
  if (configuration.goes_on == GoesOn::kNowhere) return trained(configuration);
  const ultra::test::TemporaryFolder folder;
  const bool spreads = configuration.goes_on == GoesOn::kSpread;
  const Configuration alone = configuration.alone();
  const std::string saved = folder.path("saved");
  static_cast<void>(
      trained((spreads ? alone : configuration).with("--steps", "1").with("--checkpoint", saved)));
  return trained((spreads ? configuration : alone).with("--resume", saved));
}

std::string difference(const std::vector<double>& actual, const std::vector<double>& expected,
                       double relative, double scale, const std::string& what) {
  if (actual.size() != expected.size()) {
    return fmt::format("{}: {} numbers, expected {}", what, actual.size(), expected.size());
  }
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double most = relative * std::max(scale, std::abs(expected[i]));
    if (std::abs(actual[i] - expected[i]) <= most) continue;
    return fmt::format("{} {}: {:.17g}, on one rank {:.17g}", what, i, actual[i], expected[i]);
  }
  return {};
}

/// Losses that are near: all that can be said of a training that rounds what it sends.
std::string difference_of_losses(const RankRun& actual, const RankRun& expected, double near,
                                 double least) {
  const auto losses = [](const RankRun& run) {
    std::vector<double> all;
    for (const train::StepMetrics& step : run.result.steps) all.push_back(step.loss);
    return all;
  };
  return difference(losses(actual), losses(expected), near, least, "loss");
}

/// Weights are as large at least as what the training moves them by, if they begin at zero, too. Gradients that
/// are zero but for roundings, of queries' and keys' biases where each query sees one key, move none as far.
std::string difference(const RankRun& actual, const RankRun& expected, double of_weights) {
  std::string found = difference(numbers_of(actual.result), numbers_of(expected.result), kRelative,
                                 0, "loss, norm, validation loss or loss of the tokens after next");
  if (!found.empty() || actual.weights.empty()) return found;
  if (actual.weights.size() != expected.weights.size()) return "other parameters";
  double moved = 0;
  for (const train::StepMetrics& step : expected.result.steps) moved += step.learning_rate;
  for (std::size_t p = 0; p < expected.weights.size(); ++p) {
    found = difference(actual.weights[p], expected.weights[p], of_weights,
                       std::max(moved, ultra::test::largest_magnitude(expected.weights[p])),
                       fmt::format("parameter {}, element", p));
    if (!found.empty()) return found;
  }
  if (std::ranges::any_of(actual.written, [](double times) { return times != 1.0; })) {
    return "an element would be saved by no rank, or by several";
  }
  return {};
}

/// The same with one thing less: what no model can do without stays, and so do rows, without which a unit
/// cannot have frozen parameters beside others.
std::vector<Configuration> simpler(const Configuration& configuration) {
  const std::set<std::string> kept = {"--data",         "--dtype", "--seed",     "--layers",
                                      "--hidden",       "--heads", "--ffn",      "--seq",
                                      "--global-batch", "--steps", "--kv-heads", "--shards"};
  std::vector<Configuration> all;
  if (configuration.goes_on != GoesOn::kNowhere) {
    all.push_back(configuration);
    all.back().goes_on = GoesOn::kNowhere;
  }
  for (std::vector<Flag> Configuration::*flags : {&Configuration::layout, &Configuration::model}) {
    for (const Flag& flag : configuration.*flags) {
      if (kept.contains(flag.first)) continue;
      all.push_back(configuration);
      std::erase(all.back().*flags, flag);
    }
  }
  return all;
}

/// Tries of a shrinking, each a training.
constexpr int kMostTries = 150;

}  // namespace

std::string difference_from_one_rank(const Configuration& configuration) {
  try {
    const Trained one = trained(configuration.alone());
    const Trained many = trained_as_asked(configuration);
    if (!many.alike) return "ranks report different numbers";
    if (!one.run || !many.run) return {};  // another process has them
    if (configuration.is_exact()) {
      const bool is_muon = configuration.value_of("--optimizer") == "muon";
      return difference(*many.run, *one.run, kRelative * (is_muon ? kSteepest : 1.0));
    }
    const bool in_two_bytes = !configuration.value_of("--precision").empty();
    return in_two_bytes ? difference_of_losses(*many.run, *one.run, kNearInTwoBytes, 0)
                        : difference_of_losses(*many.run, *one.run, kNear, kLeastLoss);
  } catch (const std::exception& error) {
    return error.what();
  }
}

std::pair<Configuration, std::string> shrunk(Configuration configuration, std::string difference) {
  int tries = 0;
  bool smaller = true;
  while (smaller && tries < kMostTries) {
    smaller = false;
    for (const Configuration& less : simpler(configuration)) {
      if (tries >= kMostTries) break;
      if (!refusal_of(less).empty() || !refusal_of(less.alone()).empty()) continue;
      ++tries;
      std::string still = difference_from_one_rank(less);
      if (still.empty()) continue;
      configuration = less;
      difference = std::move(still);
      smaller = true;
      break;
    }
  }
  return {configuration, difference};
}

}  // namespace ultra::five_d::test
