#include "common/train/cli/run_techniques.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/errors.hpp"
#include "common/base/text.hpp"
#include "common/comm/run_ranks.hpp"
#include "common/optim/rules.hpp"
#include "common/train/cli/program.hpp"
#include "common/train/elsewhere/elsewhere.hpp"
#include "common/train/elsewhere/memory_table.hpp"
#include "common/train/model_worker.hpp"
#include "common/train/options/file_flags.hpp"
#include "common/train/options/flags.hpp"
#include "common/train/run/trainer.hpp"
#include "common/train/weights/initial_weights.hpp"
#include "common/train/weights/master_weights.hpp"

namespace ultra::train {
namespace {

void print_on_one_process(const std::string& text) {
  if (launched_rank() == 0) fmt::print("{}", text);
}

std::string answer_of(const Setup& setup) {
  for (const auto& technique : setup.techniques) {
    if (auto answer = technique->answer(setup)) return *std::move(answer);
  }
  throw InternalError("a question is asked that no technique answers");
}

void measure(const Setup& setup) {
  for (const auto& technique : setup.techniques) {
    if (!technique->questions().empty()) return technique->measure(setup);
  }
}

void add_flags(CLI::App& app, Setup& setup) {
  setup.train.add_to(app);
  setup.on.add_to(app);
  for (const auto& technique : setup.techniques) technique->add_flags(app, setup);
}

/// Closed forms count two states of each weight.
void expect_default_rule(const std::string& optimizer, const std::string& question) {
  if (optimizer == optim::kDefaultRule) return;
  throw ConfigError(fmt::format(
      "{} answers for a training with {}, and --optimizer is {}. Leave out --optimizer.", question,
      optim::kDefaultRule, optimizer));
}

/// Of all weights.
void expect_all_trained(const std::vector<std::string>& freeze, const std::string& question) {
  if (freeze.empty()) return;
  throw ConfigError(fmt::format(
      "{} answers by formulas that count all weights as trained. Leave out --freeze, or record the "
      "step: --on.",
      question));
}

/// And layers of a plain Llama, whose tokens see all before them.
void expect_closed_forms(const nn::ModelConfig& model, const std::string& question) {
  if (model.has_closed_forms() && model.sliding_window == 0 && model.head_chunks == 1) return;
  throw ConfigError(fmt::format(
      "{} answers by formulas that know no {}. Leave it out, or record the step: --on.", question,
      model.latent.on            ? "latents (--attention mla)"
      : model.qkv_bias           ? "biases (--qkv-bias)"
      : model.qk_norm            ? "norms of queries and keys (--qk-norm)"
      : model.mtp                ? "block for the token after next (--mtp)"
      : model.sliding_window > 0 ? "window (--window)"
      : model.head_chunks > 1    ? "head in pieces (--head-chunks)"
                                 : "heads of another width than --hidden / --heads "
                                   "(--head-dim)"));
}

constexpr std::string_view kModel = "--model";

/// What --model says, as the command line's reader will find it.
std::optional<std::string> named_in(const std::vector<std::string>& words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (!is_flag(words[i], kModel)) continue;
    if (words[i].size() > kModel.size()) return words[i].substr(kModel.size() + 1);
    if (i + 1 < words.size()) return words[i + 1];
  }
  return {};
}

/// Published models that the flags of a program can describe.
std::vector<NamedModel> models_of(const Techniques& techniques) {
  std::vector<NamedModel> models;
  for (const nn::NamedModel& dense : nn::published_models()) models.push_back(in_flags(dense));
  for (const auto& technique : techniques) {
    for (NamedModel& model : technique->named_models()) models.push_back(std::move(model));
  }
  return models;
}

/// The words that stand for those of a command line: of techniques, then of --model.
std::vector<std::string> rewritten(std::vector<std::string> words, const Techniques& techniques) {
  for (const auto& technique : techniques) words = technique->rewrite(std::move(words));
  return with_model_flags(std::move(words), models_of(techniques));
}

void validate(Setup& setup) {
  if (setup.on.json && !setup.on.asked()) {
    throw ConfigError("--on-json has no meaning without --on CLUSTER. Give both.");
  }
  if (setup.on.asked()) move_elsewhere(setup);
  adopt_model(setup.train);
  if (!setup.train.init.empty()) {
    // The folders of ranks on different machines are compared by what they say.
    setup.command_line.flags["the model of --init"] = described(setup.train.model);
  }
  for (const auto& technique : setup.techniques) technique->validate(setup);
  std::vector<FileFlag> files = setup.files();
  const auto question = setup.question();
  const bool records = question && question->what == Instead::kRecord;
  if (records) reject_conflicts(conflicts_with_recording(setup));
  const bool answers = question && question->what == Instead::kAnswer;
  for (FileFlag& file : files) {
    if (records && file.flag == "--trace") file.use = FileUse::kAnswer;
  }
  if (question) expect_nothing_to_write(files, question->flag);
  if (answers) {
    expect_default_rule(setup.train.optimizer, question->flag);
    expect_all_trained(setup.train.freeze, question->flag);
    expect_closed_forms(setup.train.model, question->flag);
  }
  expect_different_files(files);
  // What needs no ranks may be asked for more of them than can run here.
  if (answers) return;
  for (const auto& technique : setup.techniques) technique->check_ranks(setup);
  if (setup.has_ranks()) setup.comm.validate();
}

void validate_training(const Setup& setup) {
  setup.train.validate();
  for (const auto& technique : setup.techniques) technique->validate_training(setup);
}

std::string tables_of_techniques(const Setup& setup, const TrainResult& result) {
  std::string text;
  for (const auto& technique : setup.techniques) text += technique->table(setup, result);
  return text;
}

void train_on_ranks(const Setup& setup, int ranks, const WorkerOfRank& make_worker) {
  if (!setup.has_ranks()) expect_one_process();
  run_ranks(
      ranks,
      [&](Communicator& world) {
        const TrainResult result = train_with(setup, world, make_worker);
        if (world.rank() != 0) return;
        // Ranks that are not alike have no recorded step beside them.
        fmt::print("{}", make_worker ? tables_of_techniques(setup, result) : tables(setup, result));
      },
      setup.rank_options());
}

void run(Setup& setup, const WorkerOfRank& make_worker) {
  validate(setup);
  const auto question = setup.question();
  const bool records = question && question->what == Instead::kRecord;
  if (!question || records) validate_training(setup);
  if (records) {
    if (make_worker)
      throw ConfigError(
          "--on records ranks that are alike, and this program has others beside them. Ask a "
          "program without those, such as ./workbook run 03.");
    return print_on_one_process(report_on_machine(setup));
  }
  if (question && question->what == Instead::kAnswer) {
    return print_on_one_process(answer_of(setup));
  }
  const int ranks = setup.ranks();
  if (setup.train.print_ranks) return print_on_one_process(fmt::format("{}\n", ranks));
  if (question) return measure(setup);
  train_on_ranks(setup, ranks, make_worker);
}

/// Whether flags can be read, whether or not they fit together.
bool can_read(Techniques techniques, const std::vector<std::string>& words) {
  Setup setup;
  setup.techniques = std::move(techniques);
  CommandParser parser;
  add_flags(parser.app(), setup);
  try {
    static_cast<void>(parser.read(words));
    return true;
  } catch (const Error&) {
    return false;
  }
}

bool names_machine(const std::vector<std::string>& words) {
  return std::ranges::any_of(words, [](const std::string& word) { return is_flag(word, kOnFlag); });
}

}  // namespace

std::vector<std::string> with_model_flags(std::vector<std::string> words,
                                          const std::vector<NamedModel>& models) {
  const std::optional<std::string> name = named_in(words);
  if (!name) return words;
  const auto model = std::ranges::find(models, *name, &NamedModel::name);
  if (model == models.end()) {
    std::vector<std::string_view> names;
    for (const NamedModel& known : models) names.push_back(known.name);
    throw ConfigError(fmt::format(
        "--model: no model is called {}. Choose {}, or describe one by --layers, --hidden, ...",
        in_quotes(*name), fmt::join(names, ", ")));
  }
  for (const auto& [flag, value] : model->flags) {
    const bool given =
        std::ranges::any_of(words, [&](const std::string& word) { return is_flag(word, flag); });
    if (given) continue;
    words.push_back(flag);
    if (!value.empty()) words.push_back(value);
  }
  return words;
}

Setup parse_setup(Techniques techniques, const std::vector<std::string>& flags) {
  Setup setup;
  setup.techniques = std::move(techniques);
  CommandParser parser;
  add_flags(parser.app(), setup);
  static_cast<void>(parser.read(rewritten(flags, setup.techniques)));
  setup.command_line = command_line_of(parser.app(), setup.train.files());
  validate(setup);
  validate_training(setup);
  return setup;
}

std::unique_ptr<Worker> make_trainer(const Setup& setup, const RunContext& context,
                                     const Communicator& trainers, const ChangeTrainer& change) {
  StepConfig step_config;
  step_config.rule = optim::make_rule(setup.train.optimizer);
  if (setup.on.asked()) step_config.weight_rule.offer(update_master_weights);
  for (const auto& technique : setup.techniques) technique->configure_step(step_config, setup);
  const auto plan =
      std::make_shared<Plan>(make_plan(setup.train, trainers, setup.mesh_shape(trainers.size()),
                                       {.share = step_config.share.get(),
                                        .cut = step_config.cut.get(),
                                        .schedule = step_config.schedule.get()}));
  for (const auto& technique : setup.techniques) technique->configure_plan(*plan, setup);
  if (change) change(*plan, step_config);
  FactoryStack factories;
  factories.push_back(std::make_unique<nn::DenseFactory>());
  for (const auto& technique : setup.techniques) technique->wrap_layers(factories, *plan, setup);
  const std::string& init = setup.train.init;
  if (!init.empty()) {
    expect_initial_weights(init, setup.train.model, *factories.back(), trainers);
  }
  auto trainer = std::make_unique<ModelWorker>(context, plan, std::move(factories), step_config);
  const TrainerState state = trainer->state();
  if (!init.empty()) load_initial_weights(init, state, trainers);
  std::unique_ptr<Worker> worker = std::move(trainer);
  for (const auto& technique : setup.techniques) {
    worker = technique->wrap_worker(std::move(worker), state, setup);
  }
  return worker;
}

TrainResult train_with(const Setup& setup, const Communicator& world,
                       const WorkerOfRank& make_worker) {
  expect_same_command_line(world, setup.command_line);
  return train(
      setup.train, *setup.text,
      [&](const RunContext& context) {
        return make_worker ? make_worker(setup, context)
                           : make_trainer(setup, context, context.world);
      },
      setup.config(), world);
}

std::string tables(const Setup& setup, const TrainResult& result) {
  if (result.steps_made() == 0) return {};
  return format_memory_table(setup, result) + tables_of_techniques(setup, result);
}

int run_techniques(const std::string& name, const std::string& description,
                   const MakeTechniques& techniques, int argc, const char* const* argv,
                   const WorkerOfRank& make_worker) {
  Setup setup;
  setup.techniques = techniques();
  Sweep sweep;
  const CLI::App* parsed = nullptr;
  const auto reads = [&](const std::string& flag, const std::string& value) {
    return can_read(techniques(), {flag, value});
  };
  return run_program(
      {.name = name,
       .description = description,
       .add_flags =
           [&](CLI::App& app) {
             add_flags(app, setup);
             parsed = &app;
           },
       .body =
           [&] {
             if (sweep.lines.size() > 1) {
               return print_on_one_process(report_sweep(
                   sweep, [&](const auto& words) { return parse_setup(techniques(), words); }));
             }
             setup.command_line = command_line_of(*parsed, setup.train.files());
             run(setup, make_worker);
           },
       .rewrite =
           [&](const std::vector<std::string>& words) {
             std::vector<std::string> all = rewritten(words, setup.techniques);
             if (!names_machine(all)) return all;
             sweep = sweep_of(all, reads);
             return sweep.lines.front();
           }},
      argc, argv);
}

}  // namespace ultra::train
