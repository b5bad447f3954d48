#include "chapters/02_collectives/collectives.hpp"

#include "chapters/02_collectives/choice/book_algorithms.hpp"
#include "chapters/02_collectives/replicated_training.hpp"

namespace ultra::collectives {

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

void Collectives::join(train::Ingredients& ingredients, const train::Setup&) const {
  ingredients.share.offer(equal_share);
  ingredients.exchange.offer([](const train::StatesScope& scope) {
    return sum_after_backward(scope.parameters, scope.data);
  });
}

std::unique_ptr<train::Technique> technique() { return std::make_unique<Collectives>(); }

}  // namespace ultra::collectives
