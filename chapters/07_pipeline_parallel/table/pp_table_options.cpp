#include "chapters/07_pipeline_parallel/table/pp_table_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include "chapters/07_pipeline_parallel/schedule/make_schedule.hpp"
#include "chapters/07_pipeline_parallel/schedule/schedule_file.hpp"
#include "chapters/07_pipeline_parallel/schedule/schedule_text.hpp"
#include "chapters/07_pipeline_parallel/search/search.hpp"
#include "chapters/07_pipeline_parallel/simulate/cost_model.hpp"
#include "chapters/07_pipeline_parallel/simulate/gantt.hpp"
#include "chapters/07_pipeline_parallel/simulate/simulated_step.hpp"
#include "chapters/07_pipeline_parallel/simulate/simulator.hpp"
#include "common/base/atomic_file.hpp"
#include "common/base/errors.hpp"
#include "common/base/json.hpp"
#include "common/base/text.hpp"
#include "common/train/cli/technique.hpp"
#include "common/train/options/question_flags.hpp"

namespace ultra::pipeline_parallel {
namespace {

/// A schedule, simulated.
struct TableRow {
  PipelineSchedule schedule;  ///< which
  SimulatedStep step;         ///< of it
  std::string note = {};      ///< "optimal", "too many activations"

  /// Activations that the fullest rank keeps, in units of PartCost::saved_bytes of a stage.
  [[nodiscard]] double peak() const;
};

/// Parts times micro-batches: a few hundred megabytes.
constexpr std::size_t kMostToSimulate = 1U << 18U;

void expect_small(const TableQuestion& question, std::size_t chunks) {
  // Neither number is above kMostToSimulate, see PpTableOptions: the product cannot overflow.
  const std::size_t size = question.stages * question.micro_batches * chunks;
  if (size <= kMostToSimulate) return;
  throw ConfigError(fmt::format(
      "{} stages, {} micro-batches and {} chunks per rank are {} forward passes, but the simulator "
      "takes at most {}. Choose fewer.",
      question.stages, question.micro_batches, chunks, size, kMostToSimulate));
}

double most_bytes(const TableQuestion& question) {
  if (question.most_activations == 0) return std::numeric_limits<double>::infinity();
  return question.most_activations * question.costs.stage.saved_bytes;
}

TableRow row_of(const TableQuestion& question, PipelineSchedule schedule) {
  const CostModel costs =
      question.measured ? *question.measured : question.costs.on(schedule.placement);
  if (costs.parts.size() != schedule.placement.parts()) {
    throw ConfigError(fmt::format(
        "--pp-table-costs has the times of {} parts, but schedule {} on {} stages has {}. Measure "
        "a run of as many.",
        costs.parts.size(), schedule.name, question.stages, schedule.placement.parts()));
  }
  SimulatedStep step = simulate(schedule, costs);
  TableRow row{.schedule = std::move(schedule), .step = std::move(step)};
  if (!fits(row.step, most_bytes(question))) row.note = "too many activations";
  return row;
}

TableRow searched_row(const TableQuestion& question) {
  if (question.measured) {
    throw ConfigError(
        "the search cuts the model in several ways: it needs the times of a stage "
        "(--pp-table-forward, --pp-table-head, ...), not --pp-table-costs.");
  }
  FoundSchedule found = search_schedule({.costs = question.costs,
                                         .stages = question.stages,
                                         .micro_batches = question.micro_batches,
                                         .most_bytes = most_bytes(question)});
  return {.schedule = std::move(found.schedule),
          .step = std::move(found.step),
          .note = fmt::format("{}{}", found.from,
                              found.is_optimal ? ", no schedule of one chunk is faster" : "")};
}

[[noreturn]] void refuse_without_rows(const TableQuestion& question) {
  if (question.measured) {
    throw ConfigError(fmt::format(
        "--pp-table-costs has the times of {} parts, and none of the schedules cuts the model for "
        "{} stages into so many. Give --pp-table the stages of the run that was measured.",
        question.measured->parts.size(), question.stages));
  }
  throw ConfigError(
      fmt::format("none of the schedules is one of {} micro-batches on {} stages. Give "
                  "--pp-table-micro-batches a multiple of {}, or name other schedules.",
                  question.micro_batches, question.stages, question.stages));
}

double TableRow::peak() const {
  double most = 0;
  for (const SimulatedRank& rank : step.ranks) most = std::max(most, rank.peak_bytes);
  return most;
}

/// The rows of a question: schedules that there are not for so many micro-batches are left out.
/// @throws ConfigError when it is too large to simulate, when what was measured is of other parts,
/// and when no row is left; Interrupted when the program is told to stop.
std::vector<TableRow> table_rows(const TableQuestion& question) {
  std::vector<TableRow> rows;
  for (const ScheduleChoice& choice : question.choices) {
    const bool is_possible = choice.takes(question.micro_batches, question.stages);
    const bool is_measured =
        !question.measured || question.measured->parts.size() == question.stages * choice.chunks();
    // Of several schedules those that are possible; one alone says why it is not.
    if (!(is_possible && is_measured) && question.choices.size() > 1) continue;
    expect_small(question, choice.chunks());
    rows.push_back(
        row_of(question, make_schedule(choice, question.stages, question.micro_batches)));
  }
  if (question.own) rows.push_back(row_of(question, *question.own));
  if (question.searches) rows.push_back(searched_row(question));
  if (rows.empty()) refuse_without_rows(question);
  return rows;
}

/// The heading of the lines.
std::string table_heading() {
  return fmt::format("  {:>3}{:>6}  {:<16}{:>11}{:>9}{:>9}{:>9}{:>13}{:>10}\n", "p", "m",
                     "schedule", "seconds", "r", "f", "r, span", "activations", "messages");
}

/// The rows as lines of a table.
std::string format_rows(const TableQuestion& question, const std::vector<TableRow>& rows) {
  std::string text;
  for (const TableRow& row : rows) {
    const SimulatedStep& step = row.step;
    text += fmt::format("  {:>3}{:>6}  {:<16}{:>11.6g}{:>9.4f}{:>9.4f}{:>9.4f}{:>13.4g}{:>10}{}\n",
                        question.stages, question.micro_batches, row.schedule.name, step.seconds(),
                        step.bubble_over_ideal(), step.bubble_over_total(),
                        step.longest_span() / step.ideal() - 1,
                        row.peak() / question.costs.stage.saved_bytes, step.messages.size(),
                        row.note.empty() ? "" : "  " + row.note);
  }
  return text;
}

constexpr std::string_view kSearch = "search";
constexpr std::string_view kAll = "all";
constexpr std::size_t kMostStages = 1U << 10U;
constexpr std::size_t kMostMicroBatches = 1U << 16U;
constexpr train::Numbers kTimes{0, 1e9};

/// Calls visit with each flag, see train::add_flags().
constexpr auto kEachFlag = [](const auto& visit) {
  using Options = PpTableOptions;
  visit(
      "--pp-table", &Options::pp,
      "compare schedules of pipelines of so many stages on a cost model instead of training: 4,8");
  visit("--pp-table-micro-batches", &Options::micro_batches, "of a step, one or several: 8,32");
  visit("--pp-table-schedules", &Options::schedules,
        "'all', or some of those of --schedule, and 'search' for the best that can be found");
  visit("--pp-table-forward", &Options::forward, "time of F of a stage", train::Numbers{1e-9, 1e9});
  visit("--pp-table-backward-input", &Options::backward_input, "time of B of a stage",
        train::Numbers{1e-9, 1e9});
  visit("--pp-table-backward-weight", &Options::backward_weight, "time of W of a stage", kTimes);
  visit("--pp-table-kept-after-b", &Options::kept_after_b,
        "the part of a micro-batch's activations that W still needs", train::Numbers{0, 1});
  visit("--pp-table-embedding", &Options::embedding, "how many stages' time the embedding takes",
        train::Numbers{0, 1e6});
  visit("--pp-table-head", &Options::head, "how many stages' time the head takes",
        train::Numbers{0, 1e6});
  visit("--pp-table-overlapped", &Options::overlapped,
        "time of an overlapped F and BW over their times one after the other",
        train::Numbers{1e-3, 1});
  visit("--pp-table-latency", &Options::latency, "time until a message begins to arrive", kTimes);
  visit("--pp-table-message", &Options::message, "time that a message keeps a link busy", kTimes);
  visit("--pp-table-most-activations", &Options::most_activations,
        "micro-batches that a rank has room for, counted in stages; 0: any number",
        train::Numbers{0, 1e9});
  visit("--pp-table-file", &Options::file, "a schedule that you have written, to be compared");
  visit("--pp-table-costs", &Options::costs,
        "a file that --executed-gantt has written: what it measured in place of these times");
  visit("--pp-table-chart", &Options::chart, "draw every schedule as text");
  visit("--pp-table-json", &Options::json, "print the table as JSON");
  visit("--pp-table-gantt", &Options::gantt, "write the one schedule's times as JSON");
  visit("--pp-table-trace", &Options::trace, "write the one schedule as a trace for Perfetto");
  visit("--pp-table-list", &Options::list, "write the one schedule as text that can be run");
};

std::vector<std::size_t> counts(const char* flag, const std::string& text, std::size_t most) {
  const auto numbers = train::numbers_of<std::size_t>(flag, text, "4,8");
  for (const std::size_t number : numbers) train::expect_between(flag, number, 1, most);
  return numbers;
}

/// What --pp-table-schedules names.
void choose(const std::string& names, TableQuestion& question) {
  for (const std::string_view name : ultra::split(names, ',')) {
    if (name == kSearch) {
      question.searches = true;
    } else if (name == kAll) {
      const auto all = all_schedules();
      question.choices.insert(question.choices.end(), all.begin(), all.end());
    } else {
      question.choices.push_back(train::under_flag("--pp-table-schedules", "--schedule",
                                                   [&] { return parse_schedule_choice(name); }));
    }
  }
}

/// The schedule in a file.
PipelineSchedule read_schedule(const std::string& path, std::size_t stages) {
  PipelineSchedule schedule = schedule_from_file("--pp-table-file", path);
  if (schedule.stages() == stages) return schedule;
  throw ConfigError(fmt::format("--pp-table-file {} has lines for {} stages. Write --pp-table {}.",
                                in_quotes(path), schedule.stages(), schedule.stages()));
}

/// What a run has measured.
CostModel read_costs(const std::string& path, const LinkCost& link) {
  CostModel costs = costs_of_gantt(
      text_from_file("--pp-table-costs", path, "a file that --executed-gantt has written"), path);
  costs.link = link;
  costs.message_bytes = 1;
  return costs;
}

Json to_json(const TableQuestion& question, const TableRow& row) {
  const SimulatedStep& step = row.step;
  return {{"stages", question.stages},
          {"micro_batches", row.schedule.micro_batches},
          {"schedule", row.schedule.name},
          {"seconds", step.seconds()},
          {"ideal_seconds", step.ideal()},
          {"bubble_over_ideal", step.bubble_over_ideal()},
          {"bubble_over_total", step.bubble_over_total()},
          {"span_seconds", step.longest_span()},
          {"peak_activations", row.peak()},
          {"messages", step.messages.size()},
          {"note", row.note}};
}

/// The files that one schedule is written to, open before the work.
class ScheduleFiles {
 public:
  explicit ScheduleFiles(const PpTableOptions& options) {
    open("--pp-table-gantt", options.gantt, gantt_json);
    open("--pp-table-trace", options.trace, gantt_trace);
    open("--pp-table-list", options.list,
         [](const PipelineSchedule& schedule, const SimulatedStep&) { return text_of(schedule); });
  }

  void write(const std::vector<TableRow>& rows) {
    if (files_.empty()) return;
    if (rows.size() != 1) {
      throw ConfigError(
          fmt::format("{} writes one schedule, but there are {}. Name one with "
                      "--pp-table-schedules, and one number of stages and of micro-batches.",
                      files_.front().flag, rows.size()));
    }
    for (File& file : files_) {
      file.file->write(file.content(rows.front().schedule, rows.front().step));
      file.file->commit();
    }
  }

 private:
  using Content = std::function<std::string(const PipelineSchedule&, const SimulatedStep&)>;
  struct File {
    const char* flag;
    std::unique_ptr<AtomicFile> file;
    Content content;
  };

  void open(const char* flag, const std::string& path, Content content) {
    if (path.empty()) return;
    files_.push_back({flag, std::make_unique<AtomicFile>(path, fmt::format("file ({})", flag)),
                      std::move(content)});
  }

  std::vector<File> files_;
};

}  // namespace

void PpTableOptions::add_to(CLI::App& app) {
  train::add_flags(app, "Pipeline schedules", *this, kEachFlag);
}

void PpTableOptions::validate() const {
  if (predicts()) return;
  train::expect_defaults(*this, kEachFlag, "--pp-table STAGES, for example --pp-table 4,8");
}

std::vector<train::FileFlag> PpTableOptions::files() const {
  std::vector<train::FileFlag> named;
  const auto add = [&](const char* flag, const std::string& path, train::FileUse use) {
    if (!path.empty()) named.push_back({flag, path, use});
  };
  add("--pp-table-file", file, train::FileUse::kRead);
  add("--pp-table-costs", costs, train::FileUse::kRead);
  add("--pp-table-gantt", gantt, train::FileUse::kAnswer);
  add("--pp-table-trace", trace, train::FileUse::kAnswer);
  add("--pp-table-list", list, train::FileUse::kAnswer);
  return named;
}

std::vector<TableQuestion> PpTableOptions::questions() const {
  TableQuestion question;
  question.costs = {.stage = {.forward = forward,
                              .backward_input = backward_input,
                              .backward_weight = backward_weight,
                              .saved_bytes = 1,
                              .saved_bytes_after_b = kept_after_b},
                    .embedding = embedding,
                    .head = head,
                    .overlapped = overlapped,
                    .link = {.latency = latency, .seconds_per_byte = message},
                    .message_bytes = 1};
  question.most_activations = most_activations;
  choose(schedules, question);
  if (!costs.empty()) question.measured = read_costs(costs, question.costs.link);
  std::vector<TableQuestion> all;
  const auto sizes = counts("--pp-table-micro-batches", micro_batches, kMostMicroBatches);
  for (const std::size_t p : counts("--pp-table", pp, kMostStages)) {
    question.stages = p;
    if (!file.empty()) question.own = read_schedule(file, p);
    for (const std::size_t m : sizes) {
      question.micro_batches = m;
      if (question.own && question.own->micro_batches != m) {
        throw ConfigError(fmt::format(
            "--pp-table-file {} has {} micro-batches. Write --pp-table-micro-batches {}.",
            in_quotes(file), question.own->micro_batches, question.own->micro_batches));
      }
      all.push_back(question);
    }
  }
  return all;
}

std::string PpTableOptions::answer(const nn::ModelConfig& /*model*/) const {
  ScheduleFiles files(*this);
  const std::string times = costs.empty()
                                ? fmt::format("a stage takes {:g} forward, {:g} + {:g} backward",
                                              forward, backward_input, backward_weight)
                                : fmt::format("times of {}", costs);
  std::string text =
      fmt::format("Schedules of p stages and m micro-batches; {}\n\n{}", times, table_heading());
  Json answers = Json::array();
  std::vector<TableRow> all;
  for (const TableQuestion& question : questions()) {
    std::vector<TableRow> rows = table_rows(question);
    text += format_rows(question, rows) + "\n";
    for (TableRow& row : rows) {
      if (chart) text += row.schedule.name + "\n" + gantt_text(row.schedule, row.step) + "\n";
      answers.push_back(to_json(question, row));
      all.push_back(std::move(row));
    }
  }
  files.write(all);
  if (json) return answers.dump(2) + "\n";
  return text +
         "  r: bubble over ideal time, f: over the whole step; 'span': from a rank's first action\n"
         "  to its last. Activations: of the fullest rank, in micro-batches of a whole stage.\n";
}

std::unique_ptr<train::Technique> schedule_table() {
  return std::make_unique<train::Prediction<PpTableOptions>>();
}

}  // namespace ultra::pipeline_parallel
