#include "common/train/program/run_techniques.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <utility>

#include "common/base/errors.hpp"
#include "common/comm/run_ranks.hpp"
#include "common/train/frame/trainer.hpp"
#include "common/train/model_worker.hpp"
#include "common/train/program/program.hpp"

namespace ultra::train {
namespace {

/// A rank's trainer: the plan, the layers and the step, as the techniques change them one by one.
std::unique_ptr<Worker> make_trainer(const Setup& setup, const RunContext& context,
                                     const Communicator& trainers,
                                     const std::function<void(Plan&, Ingredients&)>& change) {
  Ingredients ingredients;
  for (const auto& technique : setup.techniques) technique->join(ingredients, setup);
  const auto plan = std::make_shared<Plan>(make_plan(setup.train, trainers, setup.mesh_shape(),
                                                     {.share = ingredients.share.get(),
                                                      .cut = ingredients.cut.get(),
                                                      .schedule = ingredients.schedule.get()}));
  for (const auto& technique : setup.techniques) technique->change_plan(*plan, setup);
  if (change) change(*plan, ingredients);
  FactoryStack factories;
  factories.push_back(std::make_unique<nn::DenseFactory>());
  for (const auto& technique : setup.techniques) technique->wrap(factories, *plan, setup);
  auto trainer = std::make_unique<ModelWorker>(context, plan, std::move(factories), ingredients);
  const TrainerState state = trainer->state();
  std::unique_ptr<Worker> worker = std::move(trainer);
  for (const auto& technique : setup.techniques) {
    worker = technique->wrap_worker(std::move(worker), state, setup);
  }
  return worker;
}

std::unique_ptr<Worker> make_worker(const Setup& setup, const RunContext& context) {
  const MakeTrainer trainer = [&](const Communicator& trainers, const auto& change) {
    return make_trainer(setup, context, trainers, change);
  };
  for (const auto& technique : setup.techniques) {
    if (auto worker = technique->make_worker(context, setup, trainer)) return worker;
  }
  return trainer(context.world, {});
}

void print_on_one_process(const std::string& text) {
  if (launched_rank() == 0) fmt::print("{}", text);
}

/// The answer that is asked for instead of training; none when training is asked for.
std::optional<std::string> answer_of(const Setup& setup) {
  if (setup.estimates()) {
    for (std::size_t i = setup.techniques.size(); i-- > 0;) {
      if (auto answer = setup.techniques[i]->estimate(setup)) return answer;
    }
  }
  for (const auto& technique : setup.techniques) {
    if (auto answer = technique->answer(setup)) return answer;
  }
  return {};
}

void add_flags(CLI::App& app, Setup& setup) {
  setup.train.add_to(app);
  for (const auto& technique : setup.techniques) technique->add_flags(app, setup);
}

void validate(Setup& setup) {
  for (const auto& technique : setup.techniques) technique->validate(setup);
  // An estimate may be asked for more ranks than can run here.
  if (setup.estimates()) return;
  for (const auto& technique : setup.techniques) technique->settle(setup);
  if (setup.has_ranks()) setup.comm.validate();
}

void validate_training(const Setup& setup) {
  setup.train.validate();
  for (const auto& technique : setup.techniques) technique->validate_training(setup);
}

void run(Setup& setup) {
  validate(setup);
  if (const auto answer = answer_of(setup)) return print_on_one_process(*answer);
  const auto measuring = std::ranges::find_if(setup.techniques, &Technique::measures,
                                              [](const auto& t) -> const Technique& { return *t; });
  if (measuring == setup.techniques.end()) validate_training(setup);
  const int ranks = setup.has_ranks() ? setup.comm.world_size() : 1;
  if (setup.train.print_ranks) {
    return print_on_one_process(fmt::format("{}\n", ranks));
  }
  if (measuring != setup.techniques.end()) return (*measuring)->measure(setup);
  if (!setup.has_ranks()) expect_one_process();
  run_ranks(
      ranks,
      [&](Communicator& world) {
        const TrainResult result = train_with(setup, world);
        if (world.rank() == 0) fmt::print("{}", tables(setup, result));
      },
      setup.rank_options());
}

}  // namespace

Setup parse_setup(Techniques techniques, const std::vector<std::string>& flags) {
  Setup setup;
  setup.techniques = std::move(techniques);
  CLI::App app;
  add_flags(app, setup);
  try {
    app.parse(std::vector<std::string>(flags.rbegin(), flags.rend()));
  } catch (const CLI::ParseError& error) {
    throw ConfigError(error.what());
  }
  validate(setup);
  validate_training(setup);
  return setup;
}

TrainResult train_with(const Setup& setup, const Communicator& world) {
  return train(
      setup.train, [&](const RunContext& context) { return make_worker(setup, context); },
      setup.config(), world);
}

std::string tables(const Setup& setup, const TrainResult& result) {
  if (result.steps_made() == 0) return {};
  std::string text;
  for (std::size_t i = setup.techniques.size(); i-- > 0;) {
    const auto table = setup.techniques[i]->memory_table(setup, result);
    if (!table) continue;
    text = *table;
    break;
  }
  for (const auto& technique : setup.techniques) text += technique->table(setup, result);
  return text;
}

int run_techniques(const std::string& name, const std::string& description, Techniques techniques,
                   int argc, const char* const* argv) {
  Setup setup;
  setup.techniques = std::move(techniques);
  return run_program({.name = name,
                      .description = description,
                      .add_flags = [&](CLI::App& app) { add_flags(app, setup); },
                      .body = [&] { run(setup); }},
                     argc, argv);
}

}  // namespace ultra::train
